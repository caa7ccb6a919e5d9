//! Opening a connection: CONNECT, CONNECTED, and what follows from them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use kernel::Name;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use wire::stomp::{self, Command, Decoded, Decoder, Frame, HeartBeat, Limits, Version};

use super::address::Address;
use super::dialect::{self, Dialect};
use super::session::complaint_text;
use super::stream::Stream;

/// How long one attempt to connect may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// A connection on which nothing was heard for so many times the agreed period is lost.
const HEART_BEAT_GRACE: u32 = 2;

/// What a broker of ours says to a node, with the version of the frames that only nodes use.
const NODE_HEADER: &str = "hivewire-node";
const NODE_VERSION: &str = "1";

/// What the server may send at most in one frame. Headers in front of the body count as body.
const LIMITS: Limits = Limits {
    header_line_bytes_max: 64 * 1024,
    headers_max: 512,
    headers_bytes_max: 2 * kernel::limits::HEADERS_BYTES_MAX,
    body_bytes_max: kernel::limits::BODY_BYTES_MAX + kernel::limits::HEADERS_BYTES_MAX,
};

/// When signs of life are due, as it was agreed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Heart {
    pub send_every: Option<Duration>,
    pub expect_within: Option<Duration>,
}

/// A connection that the server has accepted.
pub(super) struct Opened {
    pub stream: Stream,
    pub decoder: Decoder,
    /// What came after the server's answer.
    pub buffer: BytesMut,
    pub server: Seen,
    pub heart: Heart,
}

/// What a server says of itself when it is connected to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub dialect: &'static dyn Dialect,
    /// Whether it keeps state and commits for us.
    pub is_node: bool,
}

/// What every connection of a bus has in common.
pub(super) struct Door {
    /// One at least. They are tried in turn.
    pub addresses: Vec<Address>,
    /// Whose turn it is.
    pub turn: AtomicUsize,
    pub heart_beat_ms: u64,
    pub pause_max: Duration,
    /// The node that connects, if it is one.
    pub node: Option<Name>,
    /// The last server that answered.
    pub seen: parking_lot::Mutex<Option<Seen>>,
}

impl Door {
    /// Opens a connection, or says why that is not possible now.
    pub async fn open(&self) -> Result<Opened, Arc<str>> {
        let turn = self.turn.load(Ordering::Relaxed);
        let address = &self.addresses[turn % self.addresses.len()];
        let reason = match tokio::time::timeout(CONNECT_TIMEOUT, self.try_open(address)).await {
            Ok(Ok(opened)) => {
                *self.seen.lock() = Some(opened.server);
                return Ok(opened);
            }
            Ok(Err(reason)) => reason.into(),
            Err(_) => format!("no answer within {CONNECT_TIMEOUT:?}").into(),
        };
        // The next one, unless another connection has gone on to it already.
        let _ = self.turn.compare_exchange(
            turn,
            turn.wrapping_add(1),
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
        Err(reason)
    }

    async fn try_open(&self, address: &Address) -> Result<Opened, String> {
        let stream = Stream::connect(address).await;
        let mut stream = stream.map_err(|error| error.to_string())?;
        let ours = HeartBeat {
            can_send_every_ms: self.heart_beat_ms,
            wants_every_ms: self.heart_beat_ms,
        };
        let connect = self.connect_frame(address, ours);
        let written = stream.write_all(&connect).await;
        written.map_err(|error| error.to_string())?;
        let mut decoder = Decoder::new(LIMITS);
        let mut buffer = BytesMut::with_capacity(4 * 1024);
        loop {
            let (answer, consumed) = match decoder.decode(&buffer) {
                Ok(Decoded::Incomplete) => (None, 0),
                Ok(Decoded::HeartBeat { consumed }) => (None, consumed),
                Ok(Decoded::Frame { frame, consumed }) => {
                    (Some(self.connected(address, &frame, ours)?), consumed)
                }
                Err(error) => return Err(format!("the server sent what is no frame: {error}")),
            };
            buffer.advance(consumed);
            if let Some((server, heart)) = answer {
                return Ok(Opened {
                    stream,
                    decoder,
                    buffer,
                    server,
                    heart,
                });
            }
            if consumed == 0 {
                let read = stream.read_buf(&mut buffer).await;
                if read.map_err(|error| error.to_string())? == 0 {
                    return Err("the server closed the connection before it answered".into());
                }
            }
        }
    }

    fn connect_frame(&self, address: &Address, ours: HeartBeat) -> Vec<u8> {
        let beats = ours.to_string();
        let mut headers = vec![
            ("accept-version", Version::V1_2.as_str()),
            ("host", address.virtual_host.as_str()),
            ("heart-beat", beats.as_str()),
        ];
        if let Some(node) = &self.node {
            headers.push(("node", node.as_str()));
        }
        if let Some(login) = &address.login {
            headers.push(("login", login));
            headers.push(("passcode", &address.passcode));
        }
        let mut frame = Vec::new();
        stomp::encode(&mut frame, Version::V1_2, Command::Connect, headers, None);
        frame
    }

    /// What the server's answer says.
    fn connected(
        &self,
        address: &Address,
        frame: &Frame<'_>,
        ours: HeartBeat,
    ) -> Result<(Seen, Heart), String> {
        match frame.command {
            Command::Connected => {}
            Command::Error => return Err(complaint_text(frame)),
            other => return Err(format!("the server answered with {other}")),
        }
        if frame.header("version").as_deref() != Some(Version::V1_2.as_str()) {
            return Err("the server does not speak STOMP 1.2".into());
        }
        let server = frame.header("server").unwrap_or_default();
        let dialect = address.dialect.or_else(|| dialect::of_server(&server));
        let Some(dialect) = dialect else {
            let names = dialect::names();
            return Err(format!(
                "the server calls itself {server:?}, which is not known here: add ?dialect= to the address, with one of {names}"
            ));
        };
        let is_node =
            self.node.is_some() && frame.header(NODE_HEADER).as_deref() == Some(NODE_VERSION);
        if self.node.is_some() && dialect.is_ours() && !is_node {
            return Err("the broker keeps no state for nodes: it is of another version".into());
        }
        let theirs = frame.header("heart-beat");
        let theirs: HeartBeat = theirs
            .and_then(|text| text.parse().ok())
            .unwrap_or_default();
        let heart = Heart {
            send_every: ours.sends_every_ms(theirs).map(Duration::from_millis),
            expect_within: theirs
                .sends_every_ms(ours)
                .map(|every_ms| Duration::from_millis(every_ms) * HEART_BEAT_GRACE),
        };
        Ok((Seen { dialect, is_node }, heart))
    }
}
