//! What the broker knows beyond the protocol.

use hivewire_tests::hive::Hive;

use crate::wire::{Wire, header, held};

#[test]
fn a_senders_own_id_travels_under_another_name() {
    let hive = Hive::start().unwrap();
    let mut wire = Wire::connected(&hive);
    wire.send("SUBSCRIBE\nid:1\ndestination:/queue/ids\n\n\0");
    wire.send("SEND\ndestination:/queue/ids\na:1\nhivewire-message-id:mine\nb:2\n\n\0");
    let message = wire.frame();
    assert!(
        message.contains("\na:1\nhivewire-message-id:mine\nb:2\n"),
        "{message:?}"
    );
    assert_ne!(header(&message, "message-id"), "mine");
}

#[test]
fn tries_are_told_and_cannot_be_faked() {
    let hive = Hive::start().unwrap();
    let mut wire = Wire::connected(&hive);
    wire.send("SUBSCRIBE\nid:1\ndestination:/queue/tries\nack:client-individual\n\n\0");
    wire.send("SEND\ndestination:/queue/tries\nhivewire-tries:9\n\nx\0");
    let mut message = wire.frame();
    assert!(!message.contains("hivewire-tries"), "{message:?}");
    for tries in ["1", "2"] {
        let id = header(&message, "ack");
        wire.send(format!("NACK\nid:{id}\n\n\0"));
        message = wire.frame();
        assert_eq!(header(&message, "hivewire-tries"), tries);
    }
}

#[test]
fn a_nack_may_give_a_reason_and_be_final() {
    let hive = Hive::start().unwrap();
    let mut wire = Wire::connected(&hive);
    wire.send("SUBSCRIBE\nid:1\ndestination:/queue/final\nack:client-individual\n\n\0");
    wire.send("SEND\ndestination:/queue/final\n\nx\0");
    let id = header(&wire.frame(), "ack");
    wire.send(format!(
        "NACK\nid:{id}\ndead:true\nreason:not\\cgood\nreceipt:n\n\n\0"
    ));
    wire.expect("RECEIPT\nreceipt-id:n\nack-level:memory\n\n\0");
    wire.send("SUBSCRIBE\nid:2\ndestination:/queue/hivewire.dead\n\n\0");
    let letter = wire.frame();
    assert_eq!(header(&letter, "dead-reason"), "not\\cgood");
    assert_eq!(header(&letter, "dead-queue"), "final");
    assert_eq!(held(&hive, "final"), 0);
}

#[test]
fn an_ack_may_stand_for_all_before_it() {
    let hive = Hive::start().unwrap();
    let mut wire = Wire::connected(&hive);
    wire.send("SUBSCRIBE\nid:1\ndestination:/queue/through\nack:client-individual\n\n\0");
    for body in ["a", "b", "c"] {
        wire.send(format!("SEND\ndestination:/queue/through\n\n{body}\0"));
    }
    let ids: Vec<String> = (0..3).map(|_| header(&wire.frame(), "ack")).collect();
    wire.send(format!("ACK\nid:{}\nthrough:true\nreceipt:a\n\n\0", ids[1]));
    wire.expect("RECEIPT\nreceipt-id:a\nack-level:memory\n\n\0");
    assert_eq!(held(&hive, "through"), 1);
}

#[test]
fn what_was_not_looked_at_comes_back_unmarked() {
    let hive = Hive::start().unwrap();
    let mut wire = Wire::connected(&hive);
    wire.send("SUBSCRIBE\nid:1\ndestination:/queue/unseen\nack:client-individual\n\n\0");
    wire.send("SEND\ndestination:/queue/unseen\n\na\0SEND\ndestination:/queue/unseen\n\nb\0");
    let ids: Vec<String> = (0..2).map(|_| header(&wire.frame(), "ack")).collect();
    wire.send(format!("NACK\nid:{}\nunseen:true\nreceipt:n\n\n\0", ids[1]));
    wire.expect("RECEIPT\nreceipt-id:n\nack-level:memory\n\n\0");
    wire.send("DISCONNECT\nreceipt:d\n\n\0");
    wire.expect("RECEIPT\nreceipt-id:d\n\n\0");
    wire.expect_closed();
    let mut wire = Wire::connected(&hive);
    wire.send("SUBSCRIBE\nid:1\ndestination:/queue/unseen\nack:client-individual\n\n\0");
    let (seen, unseen) = (wire.frame(), wire.frame());
    assert!(
        seen.ends_with("a\0") && seen.contains("\nhivewire-tries:1\n"),
        "{seen:?}"
    );
    assert!(
        unseen.ends_with("b\0") && !unseen.contains("redelivered"),
        "{unseen:?}"
    );
}
