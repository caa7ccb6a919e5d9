//! Clients that never finish what they begin, and floods of datagrams: closed in time, memory
//! flat, and no answer larger than its question.

use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hivewire_tests::gamq_client::{Gamq, GamqUdp};
use hivewire_tests::hive::Hive;
use hivewire_tests::poll::wait_until;
use hivewire_tests::stomp_client::{Stomp, TIMEOUT};

const STOMP_SOCKETS: usize = 2_000;
const GAMQ_SOCKETS: usize = 500;
const HTTP_SOCKETS: usize = 500;
const CLOSED_WITHIN: Duration = Duration::from_secs(10);
const ONE_BYTE_EVERY: Duration = Duration::from_secs(1);
/// What the slow clients are saying; none of it is complete in time.
const STOMP_START: &[u8] = b"CONNECT\naccept-version:1.2\nhost:/\nx-padding:aaaaaaaaaaaaaaaaaa";
const GAMQ_START: &[u8] = b"PUB a-queue-whose-name-takes-its-time-to-come-to-an-end";
const HTTP_START: &[u8] = b"GET /health HTTP/1.1\r\nHost: localhost\r\nX-Padding: aaaaaaaaaaaa";

const FLOOD_TIME: Duration = Duration::from_secs(2);
const FLOOD_DATAGRAMS_PER_SECOND: u64 = 100_000;
const FLOOD_SOCKETS: usize = 200;
const GROWTH_BYTES_MAX: u64 = 48 << 20;
const ANSWER_TIMEOUT: Duration = Duration::from_millis(200);

fn is_closed(stream: &TcpStream) -> bool {
    match stream.peek(&mut [0; 1]) {
        Ok(bytes) => bytes == 0,
        Err(error) => error.kind() != io::ErrorKind::WouldBlock,
    }
}

/// Trickles its start into every socket until all are closed; says how many still are open when
/// the time is up.
fn open_after_trickling(mut clients: Vec<SlowClient>, time: Duration) -> usize {
    let start = Instant::now();
    let mut sent = 0;
    wait_until(time, || {
        if start.elapsed() >= ONE_BYTE_EVERY * sent as u32 {
            for client in &mut clients {
                // A socket that was closed meanwhile is found below.
                let byte = client.says.get(sent..=sent).unwrap_or_default();
                let _ = client.stream.write(byte);
            }
            sent += 1;
        }
        // An answer that says why comes before the end of the stream and is passed over.
        clients.retain(|client| !is_closed_after_answer(&client.stream));
        clients.is_empty()
    });
    clients.len()
}

fn is_closed_after_answer(mut stream: &TcpStream) -> bool {
    let mut answer = [0; 1024];
    loop {
        match io::Read::read(&mut stream, &mut answer) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() != io::ErrorKind::WouldBlock,
        }
    }
}

/// A socket and what it begins to say.
struct SlowClient {
    stream: TcpStream,
    says: &'static [u8],
}

fn slow_clients(address: SocketAddr, says: &'static [u8], count: usize) -> Vec<SlowClient> {
    let open = |_| {
        let stream = TcpStream::connect_timeout(&address, TIMEOUT).unwrap();
        stream.set_nonblocking(true).unwrap();
        SlowClient { stream, says }
    };
    (0..count).map(open).collect()
}

#[test]
fn thousands_of_sockets_that_never_finish_what_they_begin_are_closed_within_ten_seconds() {
    let hive = Hive::start().unwrap();
    let mut bystander = Stomp::connect(hive.stomp_address()).unwrap();
    let idle = bystander.stream().try_clone().unwrap();
    let mut slow = slow_clients(hive.stomp_address(), STOMP_START, STOMP_SOCKETS);
    slow.extend(slow_clients(hive.gamq_address(), GAMQ_START, GAMQ_SOCKETS));
    slow.extend(slow_clients(hive.http_address(), HTTP_START, HTTP_SOCKETS));
    let count = slow.len();
    let open = open_after_trickling(slow, CLOSED_WITHIN);
    assert_eq!(open, 0, "{open} of {count} are still open");
    // Control: a client that did connect is not closed, however little it says.
    idle.set_nonblocking(true).unwrap();
    assert!(!is_closed(&idle), "a connected client was closed as well");
    idle.set_nonblocking(false).unwrap();
    bystander
        .send_durable("/queue/bystander", b"hello")
        .unwrap();
}

#[test]
fn control_sockets_that_nobody_closes_are_found_open() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let slow = slow_clients(listener.local_addr().unwrap(), STOMP_START, 10);
    assert_eq!(open_after_trickling(slow, Duration::from_secs(2)), 10);
}

/// Questions that could tempt a broker into long answers, or into keeping something.
fn questions() -> Vec<Vec<u8>> {
    let mut questions: Vec<Vec<u8>> = [
        &b"HELP\r\n"[..],
        b"PINGREQ\r\n",
        b"PINGREQ",
        b"X\r\n",
        b"?",
        b"\r\n",
        b"SETACK on\r\n",
        b"PUB flood\r\n",
        b".\r\n",
        b"SUB\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\0\0\0\0",
    ]
    .iter()
    .map(|question| question.to_vec())
    .collect();
    questions.push(vec![b'A'; 1400]);
    questions
}

/// Asks each question from a socket of its own; gives those whose answer is larger.
fn amplified(address: SocketAddr) -> Vec<(Vec<u8>, usize)> {
    let mut found = Vec::new();
    for question in questions() {
        let client = GamqUdp::connect(address).unwrap();
        client.send_raw(&question).unwrap();
        let mut answered = 0;
        while let Ok(answer) = client.receive(ANSWER_TIMEOUT) {
            answered += answer.len();
        }
        if answered > question.len() {
            found.push((question, answered));
        }
    }
    found
}

#[test]
fn no_datagram_is_answered_by_more_bytes_than_it_had() {
    let hive = Hive::start().unwrap();
    let amplified = amplified(hive.gamq_address());
    assert!(amplified.is_empty(), "{amplified:?}");
    // The datagrams did arrive: what deserves an answer of its own length gets it.
    let client = GamqUdp::connect(hive.gamq_address()).unwrap();
    client.send_raw(b"PINGREQ\r\n").unwrap();
    assert_eq!(client.receive(TIMEOUT).unwrap(), b"PINGRESP\n");
}

#[test]
fn control_a_server_that_amplifies_is_found_out() {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            server.set_read_timeout(Some(ANSWER_TIMEOUT)).unwrap();
            while !stop.load(Ordering::Relaxed) {
                if let Ok((_, client)) = server.recv_from(&mut [0; 2048]) {
                    server.send_to(&[b'!'; 2000], client).unwrap();
                }
            }
        });
        assert_eq!(amplified(address).len(), questions().len());
        stop.store(true, Ordering::Relaxed);
    });
}

/// Sends datagrams at the wanted rate from many sockets; says how many went out.
fn flood(address: SocketAddr) -> u64 {
    let sockets: Vec<GamqUdp> = (0..FLOOD_SOCKETS)
        .map(|_| GamqUdp::connect(address).unwrap())
        .collect();
    for client in &sockets {
        client.socket().set_nonblocking(true).unwrap();
    }
    let questions = questions();
    let sent = AtomicU64::new(0);
    let start = Instant::now();
    while start.elapsed() < FLOOD_TIME {
        let due = start.elapsed().as_micros() as u64 * FLOOD_DATAGRAMS_PER_SECOND / 1_000_000;
        let number = sent.load(Ordering::Relaxed);
        if number >= due {
            std::thread::sleep(Duration::from_micros(200));
            continue;
        }
        let client = &sockets[number as usize % FLOOD_SOCKETS];
        let question = &questions[number as usize % questions.len()];
        // A full buffer drops it, as a real network would.
        let _ = client.send_raw(question);
        sent.fetch_add(1, Ordering::Relaxed);
    }
    sent.into_inner()
}

#[test]
fn a_flood_of_datagrams_leaves_memory_flat_and_others_served() {
    let hive = Hive::start().unwrap();
    let mut bystander = Gamq::connect(hive.gamq_address()).unwrap();
    bystander.ping().unwrap();
    let before = hive.memory_bytes().unwrap();
    let sent = std::thread::scope(|scope| {
        let flood = scope.spawn(|| flood(hive.gamq_address()));
        while !flood.is_finished() {
            bystander.ping().unwrap();
            std::thread::sleep(Duration::from_millis(20));
        }
        flood.join().unwrap()
    });
    let peak = hive.memory_bytes_peak().unwrap();
    let growth = peak.saturating_sub(before);
    eprintln!("{sent} datagrams; memory grew by {} KiB", growth >> 10);
    // Half the rate is still a flood, on a machine with better things to do.
    assert!(sent >= FLOOD_DATAGRAMS_PER_SECOND * FLOOD_TIME.as_secs() / 2);
    assert!(growth <= GROWTH_BYTES_MAX, "memory grew by {growth} bytes");
    bystander.ping().unwrap();
    let client = GamqUdp::connect(hive.gamq_address()).unwrap();
    let answered = wait_until(TIMEOUT, || {
        client.send_raw(b"PINGREQ\r\n").unwrap();
        client.receive(ANSWER_TIMEOUT).is_ok()
    });
    assert!(answered, "UDP is no longer served after the flood");
}
