//! What comes back for each command.

use hivewire_tests::hive::Hive;

use crate::wire::{Wire, header, held};

#[test]
fn connected_frames() {
    let hive = Hive::start().unwrap();
    let server = format!("server:hivewire/{}", env!("CARGO_PKG_VERSION"));
    for (connect, version) in [
        ("CONNECT\n\n\0", "1.0"),
        ("CONNECT\nlogin:a\npasscode:b\n\n\0", "1.0"),
        ("CONNECT\naccept-version:1.0\nhost:/\n\n\0", "1.0"),
        ("CONNECT\naccept-version:1.1\nhost:/\n\n\0", "1.1"),
        ("STOMP\naccept-version:1.2\nhost:/\n\n\0", "1.2"),
        ("CONNECT\naccept-version:1.0,1.1,2.0\nhost:/\n\n\0", "1.1"),
        ("CONNECT\r\naccept-version:1.2\r\nhost:/\r\n\r\n\0", "1.2"),
        (
            "\n\r\n\nCONNECT\naccept-version:1.1,1.2\nhost:/\n\n\0",
            "1.2",
        ),
    ] {
        let mut wire = Wire::open(&hive);
        wire.send(connect);
        wire.expect(format!("CONNECTED\nversion:{version}\n{server}\nsession:"));
        let rest = wire.frame();
        let (session, rest) = rest.split_once('\n').unwrap();
        assert!(!session.is_empty());
        assert_eq!(rest, "heart-beat:1000,10000\n\n\0", "{connect:?}");
    }
}

#[test]
fn what_goes_in_comes_out() {
    let hive = Hive::start().unwrap();
    let mut wire = Wire::connected(&hive);
    wire.send("SUBSCRIBE\nid:a:b\ndestination:/queue/in-out\nreceipt:r\\c1\n\n\0");
    wire.expect("RECEIPT\nreceipt-id:r\\c1\n\n\0");
    wire.send("SEND\ndestination:/queue/in-out\nreceipt:2\n\nhello\0");
    wire.expect("RECEIPT\nreceipt-id:2\nack-level:memory\n\n\0");
    let message = "MESSAGE\nsubscription:a\\cb\ndestination:/queue/in-out\nmessage-id:";
    wire.expect(message);
    let rest = wire.frame();
    assert_eq!(
        rest.split_once('\n').unwrap().1,
        "content-length:5\n\nhello\0"
    );
    // Headers of the sender's own come along in their order; those that only the server may set do not.
    wire.send(
        "SEND\ndestination:/queue/in-out\nz:1\na:x\\ny\na:second\nmessage-id:faked\nack:faked\n\
         redelivered:true\nsubscription:faked\ncontent-type:text/x\n\n\0",
    );
    wire.expect(message);
    let rest = wire.frame();
    assert_eq!(
        rest.split_once('\n').unwrap().1,
        "z:1\na:x\\ny\na:second\ncontent-type:text/x\ncontent-length:0\n\n\0"
    );
    wire.send("UNSUBSCRIBE\nid:a:b\nreceipt:3\n\n\0");
    wire.expect("RECEIPT\nreceipt-id:3\n\n\0");
    wire.send("SEND\ndestination:/queue/in-out\npersistent:true\nreceipt:4\n\nx\0");
    wire.expect("RECEIPT\nreceipt-id:4\nack-level:synced\n\n\0");
    wire.expect_nothing();
    wire.send("DISCONNECT\nreceipt:5\n\n\0");
    wire.expect("RECEIPT\nreceipt-id:5\n\n\0");
    wire.expect_closed();
}

#[test]
fn line_ends_and_escapes_depend_on_the_version() {
    let hive = Hive::start().unwrap();
    for (version, comes_back) in [
        // 1.0 knows no escapes: the bytes are the value.
        ("1.0", "odd:a\\nb\\cc\\\\d"),
        ("1.1", "odd:a\\nb\\cc\\\\d"),
        ("1.2", "odd:a\\nb\\cc\\\\d"),
    ] {
        let mut wire = Wire::connected_with(&hive, version);
        wire.send(format!(
            "SUBSCRIBE\nid:1\ndestination:/queue/odd-{version}\n\n\0"
        ));
        wire.send(format!(
            "SEND\ndestination:/queue/odd-{version}\nodd:a\\nb\\cc\\\\d\n\n\0"
        ));
        let frame = wire.frame();
        assert!(frame.contains(&format!("\n{comes_back}\n")), "{frame:?}");
    }
    // From 1.0 to 1.2 the plain value gets the escapes that it needs there.
    let mut old = Wire::connected_with(&hive, "1.0");
    let mut new = Wire::connected(&hive);
    new.send("SUBSCRIBE\nid:1\ndestination:/queue/between\nreceipt:1\n\n\0");
    new.expect("RECEIPT\nreceipt-id:1\n\n\0");
    old.send("SEND\ndestination:/queue/between\nodd:a\\nb:c\n\n\0");
    let frame = new.frame();
    assert!(frame.contains("\nodd:a\\\\nb\\cc\n"), "{frame:?}");
    // 1.2 takes a carriage return before the line feed for a part of the line end, 1.1 does not.
    new.send("SEND\r\ndestination:/queue/between\r\nx:y\r\n\r\nbody\0\r\n");
    let frame = new.frame();
    assert!(frame.contains("\nx:y\n"), "{frame:?}");
}

#[test]
fn acknowledgement_frames() {
    let hive = Hive::start().unwrap();
    for (version, names, mode) in [
        ("1.0", "message-id", "client"),
        ("1.1", "message-id", "client-individual"),
        ("1.2", "id", "client-individual"),
    ] {
        let mut wire = Wire::connected_with(&hive, version);
        let queue = format!("acks-{version}");
        wire.send(format!(
            "SUBSCRIBE\nid:1\ndestination:/queue/{queue}\nack:{mode}\n\n\0"
        ));
        wire.send(format!("SEND\ndestination:/queue/{queue}\n\nx\0"));
        let message = wire.frame();
        let id = header(&message, "message-id");
        assert_eq!(message.contains(&format!("\nack:{id}\n")), version == "1.2");
        if version != "1.0" {
            wire.send(format!(
                "NACK\n{names}:{id}\nsubscription:1\nreceipt:n\n\n\0"
            ));
            wire.expect("RECEIPT\nreceipt-id:n\nack-level:memory\n\n\0");
            let again = wire.frame();
            assert!(again.contains("\nredelivered:true\n"), "{again:?}");
            assert_eq!(header(&again, "message-id"), id);
        }
        wire.send(format!(
            "ACK\n{names}:{id}\nsubscription:1\nreceipt:a\n\n\0"
        ));
        wire.expect("RECEIPT\nreceipt-id:a\nack-level:memory\n\n\0");
        assert_eq!(held(&hive, &queue), 0, "{version}");
    }
}

#[test]
fn a_durable_acknowledgement_is_on_disk_when_its_receipt_comes() {
    let hive = Hive::start().unwrap();
    let mut wire = Wire::connected(&hive);
    wire.send("SEND\ndestination:/queue/durable\npersistent:true\n\nx\0");
    wire.send("SUBSCRIBE\nid:1\ndestination:/queue/durable\nack:client\n\n\0");
    let id = header(&wire.frame(), "ack");
    wire.send(format!("ACK\nid:{id}\nreceipt:a\n\n\0"));
    wire.expect("RECEIPT\nreceipt-id:a\nack-level:synced\n\n\0");
}

#[test]
fn transaction_frames() {
    let hive = Hive::start().unwrap();
    let mut wire = Wire::connected(&hive);
    wire.send("SUBSCRIBE\nid:1\ndestination:/queue/tx\n\n\0");
    wire.send("BEGIN\ntransaction:t\nreceipt:1\n\n\0");
    wire.expect("RECEIPT\nreceipt-id:1\n\n\0");
    wire.send("SEND\ndestination:/queue/tx\ntransaction:t\nreceipt:2\n\na\0");
    wire.expect("RECEIPT\nreceipt-id:2\nack-level:memory\n\n\0");
    wire.expect_nothing();
    wire.send("ABORT\ntransaction:t\nreceipt:3\n\n\0BEGIN\ntransaction:t\n\n\0");
    wire.expect("RECEIPT\nreceipt-id:3\n\n\0");
    wire.send("SEND\ndestination:/queue/tx\ntransaction:t\npersistent:true\n\nb\0");
    wire.send("COMMIT\ntransaction:t\nreceipt:4\n\n\0");
    // The message may come before or after the receipt, which waits for the disk.
    let mut frames = [wire.frame(), wire.frame()];
    frames.sort();
    assert!(frames[0].ends_with("content-length:1\n\nb\0"), "{frames:?}");
    assert_eq!(frames[1], "RECEIPT\nreceipt-id:4\nack-level:synced\n\n\0");
}
