//! However a connection ends, what was accepted stays and nobody else notices.

use std::net::Shutdown;
use std::time::Instant;

use hivewire_tests::hive::Hive;
use hivewire_tests::poll::wait_until;

use crate::errors::MISTAKES;
use crate::wire::{TIMEOUT, Wire, header, held};

#[test]
fn what_was_sent_before_a_mistake_is_kept() {
    let hive = Hive::start().unwrap();
    let mistakes = [
        "SEND\n\nx\0",
        "BROKEN\n\n\0",
        "SEND\ndestination:/queue/kept\nx:\\t\n\n\0",
        "SEND\ndestination:nowhere\n\nx\0",
        "ACK\nid:1-1\n\n\0",
    ];
    for (round, mistake) in mistakes.iter().enumerate() {
        let mut wire = Wire::connected(&hive);
        let sends = "SEND\ndestination:/queue/kept\n\nx\0".repeat(10);
        wire.send(format!("{sends}{mistake}"));
        wire.frame();
        wire.expect_closed();
        assert_eq!(held(&hive, "kept"), 10 * (round as u64 + 1), "{mistake:?}");
    }
}

#[test]
fn a_half_sent_message_is_not_published() {
    let hive = Hive::start().unwrap();
    let mut wire = Wire::connected(&hive);
    wire.send("SEND\ndestination:/queue/half\n\nwhole\0SEND\ndestination:/queue/half\n\nhal");
    wire.stream.shutdown(Shutdown::Write).unwrap();
    wire.expect_closed();
    assert_eq!(held(&hive, "half"), 1);
}

#[test]
fn a_client_that_sends_no_more_still_gets_its_receipts() {
    let hive = Hive::start().unwrap();
    let mut wire = Wire::open(&hive);
    wire.send("CONNECT\naccept-version:1.2\nhost:/\n\n\0");
    wire.send("SEND\ndestination:/queue/last\npersistent:true\nreceipt:1\n\nx\0");
    wire.stream.shutdown(Shutdown::Write).unwrap();
    assert!(wire.frame().starts_with("CONNECTED\n"));
    wire.expect("RECEIPT\nreceipt-id:1\nack-level:synced\n\n\0");
    wire.expect_closed();
}

/// How many subscribers a queue has.
fn consumers(hive: &Hive, queue: &str) -> u64 {
    let response = hive.rest("GET", &format!("/api/v1/queues/{queue}"), b"");
    let numbers = response.unwrap().json().unwrap();
    numbers["consumers"].as_u64().unwrap()
}

/// Clients that do everything wrong, next to one that does everything right and has to get every
/// message that was accepted.
#[test]
fn broken_clients_harm_nobody_and_lose_nothing() {
    let hive = Hive::start().unwrap();
    let mut good = Wire::connected(&hive);
    good.send("SUBSCRIBE\nid:1\ndestination:/queue/good\nack:client\nreceipt:s\n\n\0");
    good.expect("RECEIPT\nreceipt-id:s\n\n\0");
    let mut sender = Wire::connected(&hive);
    let mut accepted = 0;
    for (sent, ..) in MISTAKES {
        let mut broken = Wire::connected(&hive);
        // It takes messages of the good client's queue with it.
        broken.send("SUBSCRIBE\nid:thief\ndestination:/queue/good\nack:client\n\n\0");
        for _ in 0..4 {
            sender.send("SEND\ndestination:/queue/good\nreceipt:r\n\nx\0");
            sender.expect("RECEIPT\nreceipt-id:r\nack-level:memory\n\n\0");
            accepted += 1;
        }
        broken.send(sent);
        // Some mistakes are none here, since the subscription has another id.
        broken.stream.shutdown(Shutdown::Write).unwrap();
        while broken.read(Instant::now() + TIMEOUT) {}
        // One that is taken by five of them, one after another, would go to the dead letters.
        assert!(wait_until(TIMEOUT, || consumers(&hive, "good") == 1));
    }
    for number in 0..accepted {
        let message = good.frame();
        assert!(message.starts_with("MESSAGE\n"), "{number}: {message:?}");
        good.send(format!("ACK\nid:{}\n\n\0", header(&message, "ack")));
    }
    let all = wait_until(TIMEOUT, || held(&hive, "good") == 0);
    assert!(all, "{} are left", held(&hive, "good"));
    good.expect_nothing();
}

/// An answer that comes after the asker has gone must neither stay for ever nor cost the answerer
/// its connection, unless it asked to be told.
#[test]
fn a_temporary_queue_ends_with_its_connection() {
    let hive = Hive::start().unwrap();
    let mut server = Wire::connected(&hive);
    server.send("SUBSCRIBE\nid:1\ndestination:/queue/ask\n\n\0");
    let mut asker = Wire::connected(&hive);
    asker.send("SEND\ndestination:/queue/ask\nreply-to:/temp-queue/answers\n\n?\0");
    let request = server.frame();
    let reply_to = header(&request, "reply-to");
    let reply = |headers: &str| format!("SEND\ndestination:{reply_to}\n{headers}\n!\0");
    server.send(reply(""));
    assert!(asker.frame().ends_with("\n\n!\0"));
    drop(asker);

    let name = reply_to.trim_start_matches("/queue/");
    assert!(wait_until(TIMEOUT, || hive
        .rest("GET", &format!("/api/v1/queues/{name}"), b"")
        .is_ok_and(|answer| answer.status == 404)));
    server.send(reply("x:another\n"));
    server.send("SEND\ndestination:/queue/ask\n\nstill here\0");
    assert!(server.frame().ends_with("still here\0"));
    server.send(reply("receipt:7\n"));
    server.expect_error_with("no such queue", "receipt-id:7\n");
}
