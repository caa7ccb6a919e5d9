//! gamq byte by byte where the order of answers is all that a client has.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use hivewire_tests::hive::Hive;

const TIMEOUT: Duration = Duration::from_secs(5);
const ACCEPTED: &str = "PUBACK\n\n";
const REFUSED: &str = "PUBNACK\n";

/// A durable queue whose acknowledgements wait for the disk, and which takes two messages.
const CONFIG: &str =
    "[[broker.queues]]\nname = \"short\"\ndurability = \"durable\"\nmessages_max = 2\n";

fn answers(hive: &Hive, commands: &str, count: usize) -> String {
    let mut stream = TcpStream::connect_timeout(&hive.gamq_address(), TIMEOUT).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream.write_all(commands.as_bytes()).unwrap();
    let mut answers = vec![0; count * ACCEPTED.len()];
    stream.read_exact(&mut answers).unwrap();
    String::from_utf8(answers).unwrap()
}

#[test]
fn a_refusal_never_overtakes_an_acknowledgement_that_waits_for_the_disk() {
    let hive = Hive::options().config(CONFIG).start().unwrap();
    let publish = "PUB short\nx\n.\r\n";
    let commands =
        format!("SETACK on\n{publish}{publish}{publish}PUB\nx\n.\r\nPUB other\nx\n.\r\n");
    let expected = [ACCEPTED, ACCEPTED, REFUSED, REFUSED, ACCEPTED].concat();
    assert_eq!(answers(&hive, &commands, 5), expected);
}
