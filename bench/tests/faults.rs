//! The drivers must notice what a broken broker does: a small gamq server that loses, doubles or
//! changes one message is the control that a faithful one is told from.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hivewire_bench::drivers::gamq::Gamq;
use hivewire_bench::drivers::load::{Load, publish, receive_into, round_trip, throughput};
use hivewire_bench::drivers::{Tally, consumer, producer};

const MESSAGES: u32 = 5_000;
const FAULTY_MESSAGE: u32 = 1_234;

#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    Lose,
    Double,
    Change,
    ForgetAcknowledgement,
}

/// What the connections of one server share.
struct Shared {
    fault: Fault,
    subscriber: Mutex<Option<TcpStream>>,
}

fn start(fault: Fault) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    let shared = Arc::new(Shared {
        fault,
        subscriber: Mutex::new(None),
    });
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let shared = Arc::clone(&shared);
            // Ends with its connection, which the driver closes.
            std::thread::spawn(move || serve(&stream, &shared));
        }
    });
    address
}

/// Serves one connection until it ends, whichever way.
fn serve(stream: &TcpStream, shared: &Shared) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream);
    let mut out = stream;
    let (mut count, mut acknowledge) = (0, false);
    loop {
        let mut line = Vec::new();
        if reader.read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        match line.trim_ascii() {
            b"PINGREQ" => out.write_all(b"PINGRESP\n")?,
            b"SETACK on" => acknowledge = true,
            b"SETACK off" => acknowledge = false,
            command if command.starts_with(b"SUB ") => {
                *shared.subscriber.lock().expect("not poisoned") = Some(stream.try_clone()?);
            }
            command if command.starts_with(b"PUB ") => {
                let body = read_body(&mut reader)?;
                let faulty = count == FAULTY_MESSAGE;
                deliver(shared, body, faulty)?;
                let forgotten = faulty && shared.fault == Fault::ForgetAcknowledgement;
                if acknowledge && !forgotten {
                    out.write_all(b"PUBACK\n\n")?;
                }
                if forgotten {
                    return stream.shutdown(std::net::Shutdown::Both);
                }
                count += 1;
            }
            _ => out.write_all(b"Unrecognised command\n")?,
        }
    }
}

fn read_body(reader: &mut impl BufRead) -> std::io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let start = body.len();
        reader.read_until(b'\n', &mut body)?;
        if &body[start..] == b".\r\n" {
            body.truncate(start);
            return Ok(body);
        }
    }
}

fn deliver(shared: &Shared, mut body: Vec<u8>, faulty: bool) -> std::io::Result<()> {
    let fault = if faulty { shared.fault } else { Fault::None };
    if fault == Fault::Change {
        body[50] ^= 1;
    }
    body.extend_from_slice(b"\r\n.\r\n");
    let copies = match fault {
        Fault::Lose => 0,
        Fault::Double => 2,
        _ => 1,
    };
    let subscriber = shared.subscriber.lock().expect("not poisoned");
    let mut stream = subscriber.as_ref().expect("subscribed first");
    (0..copies).try_for_each(|_| stream.write_all(&body))
}

fn load(window: Option<u32>) -> Load {
    Load {
        destination: "q".to_owned(),
        messages: MESSAGES,
        body_bytes: 128,
        window,
    }
}

#[test]
fn a_faithful_broker_passes() {
    for window in [None, Some(1), Some(100)] {
        let outcome = throughput(&Gamq, start(Fault::None), &load(window)).expect("all arrives");
        assert_eq!(outcome.messages, MESSAGES);
        assert!(outcome.rate() > 0.0);
    }
}

#[test]
fn round_trips_are_timed() {
    let outcome = round_trip(&Gamq, start(Fault::None), &load(None)).expect("all arrives");
    assert!(outcome.p50 <= outcome.p99);
}

#[test]
fn a_doubled_message_is_found() {
    let error = throughput(&Gamq, start(Fault::Double), &load(None)).unwrap_err();
    assert!(error.to_string().contains("1 came twice"), "{error}");
}

#[test]
fn a_changed_message_is_found() {
    let error = throughput(&Gamq, start(Fault::Change), &load(None)).unwrap_err();
    assert!(error.to_string().contains("was changed"), "{error}");
}

#[test]
fn a_lost_message_is_found() {
    let (address, load) = (start(Fault::Lose), load(None));
    let mut consumer = consumer(&Gamq, address, &load.destination).expect("subscribed");
    // A full run would wait for a minute.
    consumer
        .set_wait_timeout(Duration::from_secs(1))
        .expect("a timeout can be set");
    let mut producer = producer(&Gamq, address, false).expect("connected");
    publish(&Gamq, &mut producer, &load).expect("sent");
    let mut tally = Tally::new(MESSAGES);
    let error = receive_into(&Gamq, &mut consumer, &load, &mut tally).unwrap_err();
    assert!(error.to_string().contains("nothing came"), "{error}");
    assert_eq!((tally.missing(), tally.doubled()), (1, 0));
}

#[test]
fn a_lost_confirmation_is_found() {
    let address = start(Fault::ForgetAcknowledgement);
    assert!(throughput(&Gamq, address, &load(Some(100))).is_err());
}
