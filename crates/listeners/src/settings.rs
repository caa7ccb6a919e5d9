//! What can be configured about listeners.

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Where a listener listens, if it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Address {
    /// The listener is not started.
    Off,
    /// It listens here; port 0 takes any free one.
    At(SocketAddr),
}

impl Address {
    /// A port of the loopback interface.
    pub const fn loopback(port: u16) -> Self {
        Self::At(SocketAddr::new(
            std::net::IpAddr::V4(Ipv4Addr::LOCALHOST),
            port,
        ))
    }
}

/// A text that is no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no address: write `off`, or an IP address and port such as `127.0.0.1:61613`")]
pub struct BadAddress(String);

impl FromStr for Address {
    type Err = BadAddress;

    fn from_str(text: &str) -> Result<Self, BadAddress> {
        if text == "off" {
            return Ok(Self::Off);
        }
        text.parse()
            .map(Self::At)
            .map_err(|_| BadAddress(text.to_owned()))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => formatter.write_str("off"),
            Self::At(address) => address.fmt(formatter),
        }
    }
}

impl Serialize for Address {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Address {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Somebody who may connect.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct User {
    /// The login.
    pub name: String,
    /// The passcode.
    pub password: String,
    /// Whether it is a node: it may keep state here, commit, and send to names of Hivewire's own.
    #[serde(default)]
    pub node: bool,
}

impl fmt::Debug for User {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The password must not reach a log.
        formatter
            .debug_struct("User")
            .field("name", &self.name)
            .field("node", &self.node)
            .finish_non_exhaustive()
    }
}

/// All that can be configured about listeners.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// The STOMP listener.
    pub stomp: StompSettings,
    /// The gamq listener.
    pub gamq: GamqSettings,
    /// Allows addresses other than loopback although nothing is encrypted.
    pub allow_remote: bool,
    /// Who may connect. As long as nobody stands here, anyone on this machine may.
    pub users: Vec<User>,
    /// How many connections there may be at a time, over all protocols.
    pub connections_max: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            stomp: StompSettings::default(),
            gamq: GamqSettings::default(),
            allow_remote: false,
            users: Vec::new(),
            connections_max: 20_000,
        }
    }
}

/// How STOMP is spoken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StompSettings {
    /// Where it listens.
    pub address: Address,
    /// Where it listens with TLS.
    pub tls_address: Address,
    /// The file with the certificate that clients are shown there, and those that vouch for it.
    pub tls_certificate: Option<PathBuf>,
    /// The file with the key of that certificate.
    pub tls_key: Option<PathBuf>,
    /// The largest body of a frame.
    pub body_bytes_max: usize,
    /// All headers of a frame together.
    pub headers_bytes_max: usize,
    /// How many headers a frame may have.
    pub headers_max: usize,
    /// How long a client may take from connecting to the end of its CONNECT frame.
    pub handshake_seconds_max: u64,
    /// How long a client may take over one frame.
    pub frame_seconds_max: u64,
    /// How many subscriptions a connection may have.
    pub subscriptions_max: usize,
    /// How many transactions a connection may have open.
    pub transactions_max: usize,
    /// What all open transactions of a connection may hold.
    pub transaction_bytes_max: usize,
    /// How many messages a client with its own acknowledgements gets before it must answer,
    /// unless it says `prefetch-count`.
    pub prefetch_messages: u32,
    /// The shortest time between heart-beats that we promise to keep.
    pub heart_beat_send_ms: u64,
    /// How often we want to hear from a client that can send heart-beats.
    pub heart_beat_want_ms: u64,
}

impl Default for StompSettings {
    fn default() -> Self {
        Self {
            address: Address::loopback(61_613),
            tls_address: Address::Off,
            tls_certificate: None,
            tls_key: None,
            body_bytes_max: kernel::limits::BODY_BYTES_MAX,
            headers_bytes_max: 32 * 1024,
            headers_max: 100,
            handshake_seconds_max: 8,
            frame_seconds_max: 60,
            subscriptions_max: 1_000,
            transactions_max: 100,
            transaction_bytes_max: 64 << 20,
            prefetch_messages: 256,
            heart_beat_send_ms: 1_000,
            heart_beat_want_ms: 10_000,
        }
    }
}

/// How gamq is spoken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GamqSettings {
    /// Where it listens, on TCP and on UDP.
    pub address: Address,
    /// Allows the protocol although users are defined: it has no way to log in.
    pub allow_anonymous: bool,
    /// The largest body.
    pub body_bytes_max: usize,
    /// The longest command line.
    pub line_bytes_max: usize,
    /// How long a client may take over one command line.
    pub line_seconds_max: u64,
    /// How long a client may take over one message.
    pub body_seconds_max: u64,
    /// How many subscriptions a connection may have.
    pub subscriptions_max: usize,
    /// How many senders of datagrams are remembered at a time.
    pub datagram_senders_max: usize,
    /// A sender of datagrams that was silent for so long is forgotten.
    pub datagram_idle_seconds_max: u64,
    /// The receive buffer that is asked for, so that bursts of datagrams are not lost.
    pub datagram_buffer_bytes: usize,
}

impl Default for GamqSettings {
    fn default() -> Self {
        Self {
            address: Address::loopback(48_879),
            allow_anonymous: false,
            body_bytes_max: kernel::limits::BODY_BYTES_MAX,
            line_bytes_max: 1_024,
            line_seconds_max: 8,
            body_seconds_max: 300,
            subscriptions_max: 1_000,
            datagram_senders_max: 4_096,
            datagram_idle_seconds_max: 3_600,
            datagram_buffer_bytes: 16 << 20,
        }
    }
}
