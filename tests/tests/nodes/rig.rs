//! A node's side of the protocol, written down from the reference and sharing nothing with the broker.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use hivewire_tests::hive::Hive;
use hivewire_tests::stomp_client::{Frame, Stomp, TIMEOUT};

/// One connection of a node.
pub struct Node {
    pub client: Stomp,
    /// What came and was not asked for yet.
    frames: VecDeque<Frame>,
    next: u64,
}

impl Node {
    pub fn connect(hive: &Hive) -> Self {
        Self::try_connect(hive, &[("node", "n1")]).unwrap()
    }

    /// Connects with these headers, or gives the ERROR frame.
    pub fn try_connect(hive: &Hive, headers: &[(&str, &str)]) -> Result<Self, Frame> {
        let mut client = Stomp::open(hive.stomp_address()).unwrap();
        let mut all = vec![("accept-version", "1.2"), ("host", "/")];
        all.extend_from_slice(headers);
        client.send_frame(&Frame::new("CONNECT", &all)).unwrap();
        let answer = client.receive_frame(TIMEOUT).unwrap();
        if answer.command != "CONNECTED" {
            return Err(answer);
        }
        let is_node = headers.iter().any(|(name, _)| *name == "node");
        let expected = is_node.then_some("1");
        assert_eq!(answer.header("hivewire-node"), expected, "{answer:?}");
        Ok(Self {
            client,
            frames: VecDeque::new(),
            next: 0,
        })
    }

    fn number(&mut self) -> String {
        self.next += 1;
        self.next.to_string()
    }

    pub fn send(&mut self, frame: &Frame) {
        self.client.send_frame(frame).unwrap();
    }

    /// Waits for a frame; others are kept.
    #[track_caller]
    pub fn wait(&mut self, what: &str, is_it: impl Fn(&Frame) -> bool) -> Frame {
        if let Some(at) = self.frames.iter().position(&is_it) {
            return self.frames.remove(at).unwrap();
        }
        let end = Instant::now() + 4 * TIMEOUT;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let frame = self.client.receive_frame(left);
            let frame = frame.unwrap_or_else(|error| panic!("{what} did not come: {error}"));
            if is_it(&frame) {
                return frame;
            }
            assert_ne!(frame.command, "ERROR", "instead of {what}: {frame:?}");
            self.frames.push_back(frame);
        }
    }

    #[track_caller]
    pub fn receipt(&mut self, id: &str) -> Frame {
        self.wait("a receipt", |frame| {
            frame.command == "RECEIPT" && frame.header("receipt-id") == Some(id)
        })
    }

    fn request_frame(
        &mut self,
        what: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> (String, Frame) {
        let id = format!("q:{}", self.number());
        let destination = format!("/hivewire/{what}");
        let mut all = vec![("destination", destination.as_str()), ("request", &id)];
        all.extend_from_slice(headers);
        let frame = Frame::new("SEND", &all).with_body(body);
        (id, frame)
    }

    /// Sends a request without waiting; gives its id.
    pub fn request(&mut self, what: &str, headers: &[(&str, &str)], body: &[u8]) -> String {
        let (id, frame) = self.request_frame(what, headers, body);
        self.send(&frame);
        id
    }

    /// Asks for the same value so many times, in one piece; gives the ids.
    pub fn request_often(&mut self, times: usize, bucket: &str, key: &[u8]) -> Vec<String> {
        let mut bytes = Vec::new();
        let mut ids = Vec::new();
        for _ in 0..times {
            let (id, frame) = self.request_frame("get", &[("bucket", bucket)], key);
            bytes.extend(frame.encode());
            ids.push(id);
        }
        self.client.send_raw(&bytes).unwrap();
        ids
    }

    #[track_caller]
    pub fn answer(&mut self, request: &str) -> Frame {
        let answer = self.wait("an answer", |frame| {
            frame.header("request") == Some(request)
        });
        assert_eq!(answer.command, "MESSAGE");
        assert_eq!(answer.header("subscription"), Some("hivewire"));
        assert_eq!(answer.header("destination"), Some("/hivewire/answer"));
        assert!(answer.header("message-id").is_some());
        answer
    }

    #[track_caller]
    pub fn ask(&mut self, what: &str, headers: &[(&str, &str)], body: &[u8]) -> Frame {
        let request = self.request(what, headers, body);
        self.answer(&request)
    }

    /// Takes over a bucket.
    #[track_caller]
    pub fn raise(&mut self, bucket: &str) -> u64 {
        let answer = self.ask("epoch", &[("bucket", bucket)], b"");
        assert_eq!(outcome(&answer), "done", "{answer:?}");
        answer.header("epoch").unwrap().parse().unwrap()
    }

    #[track_caller]
    pub fn get(&mut self, bucket: &str, key: &[u8]) -> Option<Vec<u8>> {
        let answer = self.ask("get", &[("bucket", bucket)], key);
        match outcome(&answer) {
            "found" => Some(answer.body),
            "none" => None,
            _ => panic!("{answer:?}"),
        }
    }

    /// Sends a whole commit without waiting; gives the id of its receipt.
    pub fn submit(&mut self, parts: &[Frame]) -> String {
        let name = format!("t{}", self.number());
        self.send(&Frame::new("BEGIN", &[("transaction", &name)]));
        for part in parts {
            let mut part = part.clone();
            part.headers.push(("transaction".into(), name.clone()));
            self.send(&part);
        }
        let receipt = format!("r:{name}");
        let headers = [("transaction", name.as_str()), ("receipt", &receipt)];
        self.send(&Frame::new("COMMIT", &headers));
        receipt
    }

    /// Commits and gives the receipt.
    #[track_caller]
    pub fn commit(&mut self, parts: &[Frame]) -> Frame {
        let receipt = self.submit(parts);
        self.receipt(&receipt)
    }

    pub fn subscribe(&mut self, queue: &str) {
        let destination = format!("/queue/{queue}");
        let receipt = format!("s{}", self.number());
        let headers = [
            ("id", queue),
            ("destination", destination.as_str()),
            ("ack", "client-individual"),
            ("receipt", &receipt),
        ];
        self.send(&Frame::new("SUBSCRIBE", &headers));
        self.receipt(&receipt);
    }

    #[track_caller]
    pub fn message(&mut self) -> Frame {
        self.wait("a message", |frame| {
            frame.command == "MESSAGE" && frame.header("request").is_none()
        })
    }

    /// Whether a message comes within a moment.
    pub fn has_message(&mut self, within: Duration) -> bool {
        let is_message = |frame: &Frame| frame.header("ack").is_some();
        if self.frames.iter().any(is_message) {
            return true;
        }
        self.client.receive_frame(within).is_ok_and(|frame| {
            let found = is_message(&frame);
            self.frames.push_back(frame);
            found
        })
    }
}

/// What came of something.
pub fn outcome(frame: &Frame) -> &str {
    frame.header("outcome").unwrap_or("no outcome")
}

/// The reason that has to be given.
#[track_caller]
pub fn reason(frame: &Frame) -> &str {
    let reason = frame.header("reason").unwrap_or_default();
    assert!(!reason.is_empty(), "no reason in {frame:?}");
    reason
}

fn lengthy(bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).unwrap();
    [&length.to_be_bytes()[..], bytes].concat()
}

pub fn set(key: &[u8], value: &[u8]) -> Vec<u8> {
    [vec![1], lengthy(key), lengthy(value)].concat()
}

pub fn remove(key: &[u8]) -> Vec<u8> {
    [vec![0], lengthy(key)].concat()
}

/// The part of a commit that writes state.
pub fn state(bucket: &str, epoch: u64, writes: &[Vec<u8>]) -> Frame {
    let epoch = epoch.to_string();
    let headers = [
        ("destination", "/hivewire/state"),
        ("bucket", bucket),
        ("epoch", epoch.as_str()),
    ];
    Frame::new("SEND", &headers).with_body(&writes.concat())
}

/// The part of a commit that consumes a message.
pub fn ack(message: &Frame) -> Frame {
    Frame::new("ACK", &[("id", message.header("ack").unwrap())])
}

/// The part of a commit that sends one.
pub fn output(queue: &str, body: &[u8]) -> Frame {
    let destination = format!("/queue/{queue}");
    let headers = [
        ("destination", destination.as_str()),
        ("persistent", "true"),
    ];
    Frame::new("SEND", &headers).with_body(body)
}

/// Takes one number or text after the other from a body.
pub struct Body<'a>(pub &'a [u8]);

impl<'a> Body<'a> {
    pub fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count);
        self.0 = rest;
        taken
    }

    pub fn number<const N: usize>(&mut self) -> u64 {
        let bytes = self.take(N);
        bytes
            .iter()
            .fold(0, |sum, byte| sum << 8 | u64::from(*byte))
    }

    pub fn bytes(&mut self) -> &'a [u8] {
        let length = self.number::<4>();
        self.take(length as usize)
    }
}

/// The pairs in the body of an answer.
pub fn pairs(body: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut body = Body(body);
    let mut pairs = Vec::new();
    while !body.0.is_empty() {
        pairs.push((body.bytes().to_vec(), body.bytes().to_vec()));
    }
    pairs
}

/// Messages that wait or are not acknowledged.
pub fn held(hive: &Hive, queue: &str) -> u64 {
    let response = hive.rest("GET", &format!("/api/v1/queues/{queue}"), b"");
    let response = response.unwrap();
    if response.status == 404 {
        return 0;
    }
    let numbers = response.json().unwrap();
    ["waiting", "unacknowledged"]
        .iter()
        .map(|name| numbers[name].as_u64().unwrap())
        .sum()
}
