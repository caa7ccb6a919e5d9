//! What the two sides agree on when they connect: the version and the heart-beats.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// A version of the protocol. Later versions are greater.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// STOMP 1.0.
    V1_0,
    /// STOMP 1.1.
    V1_1,
    /// STOMP 1.2.
    V1_2,
}

impl Version {
    /// The version as it stands in headers.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V1_0 => "1.0",
            Self::V1_1 => "1.1",
            Self::V1_2 => "1.2",
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// A version that this crate does not speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("unknown STOMP version; use 1.0, 1.1 or 1.2")]
pub struct UnknownVersion;

impl FromStr for Version {
    type Err = UnknownVersion;

    fn from_str(text: &str) -> Result<Self, UnknownVersion> {
        match text {
            "1.0" => Ok(Self::V1_0),
            "1.1" => Ok(Self::V1_1),
            "1.2" => Ok(Self::V1_2),
            _ => Err(UnknownVersion),
        }
    }
}

/// The greatest version in an `accept-version` header that we speak too. A client that sends none
/// speaks 1.0; `None` means that there is no version in common.
///
/// ```
/// use wire::stomp::{Version, negotiate};
///
/// assert_eq!(negotiate(Some("1.0,1.1,2.0")), Some(Version::V1_1));
/// assert_eq!(negotiate(None), Some(Version::V1_0));
/// assert_eq!(negotiate(Some("2.0")), None);
/// ```
pub fn negotiate(accept: Option<&str>) -> Option<Version> {
    let Some(accept) = accept else {
        return Some(Version::V1_0);
    };
    let offered = accept.split(',').map(str::trim);
    offered.filter_map(|version| version.parse().ok()).max()
}

/// One side's `heart-beat` header. Zero means "not at all".
///
/// ```
/// use wire::stomp::HeartBeat;
///
/// let client: HeartBeat = "1000,0".parse().unwrap();
/// let server = HeartBeat { can_send_every_ms: 5000, wants_every_ms: 3000 };
/// assert_eq!(client.sends_every_ms(server), Some(3000));
/// assert_eq!(server.sends_every_ms(client), None);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeartBeat {
    /// The shortest time between two heart-beats that this side can promise.
    pub can_send_every_ms: u64,
    /// The time between two heart-beats that this side would like to see from the other.
    pub wants_every_ms: u64,
}

impl HeartBeat {
    /// How often this side must send at least, once it knows the other's header; `None` if not at all.
    pub fn sends_every_ms(self, other: Self) -> Option<u64> {
        let agreed = self.can_send_every_ms != 0 && other.wants_every_ms != 0;
        agreed.then(|| self.can_send_every_ms.max(other.wants_every_ms))
    }
}

/// A `heart-beat` header that is not two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("heart-beat header is not two numbers of milliseconds; write it as `1000,1000`")]
pub struct BadHeartBeat;

impl FromStr for HeartBeat {
    type Err = BadHeartBeat;

    fn from_str(text: &str) -> Result<Self, BadHeartBeat> {
        let (can_send, wants) = text.split_once(',').ok_or(BadHeartBeat)?;
        Ok(Self {
            can_send_every_ms: milliseconds(can_send)?,
            wants_every_ms: milliseconds(wants)?,
        })
    }
}

/// Some clients put a space after the comma; `u64::from_str` alone would also take a plus sign.
fn milliseconds(text: &str) -> Result<u64, BadHeartBeat> {
    let digits = text.trim();
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(BadHeartBeat);
    }
    digits.parse().map_err(|_| BadHeartBeat)
}

impl fmt::Display for HeartBeat {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{},{}",
            self.can_send_every_ms, self.wants_every_ms
        )
    }
}
