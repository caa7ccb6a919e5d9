//! Why something was not fetched.

use std::fmt;
use std::net::IpAddr;

use serde::Serialize;

/// Why something was not fetched: what happened, where, and what can be done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FetchError {
    /// This URL is not fetched at all.
    #[error("{url} is not fetched: {reason}")]
    Address {
        /// The URL.
        url: String,
        /// Why not.
        reason: String,
    },
    /// The name of the host has no address.
    #[error("the name {host} has no address: {reason}")]
    Name {
        /// The host.
        host: String,
        /// What the resolver said.
        reason: String,
        /// Whether the name may be found later.
        is_passing: bool,
    },
    /// The host is not on the public internet.
    #[error(
        "{host} is at {address}, which is no public address: set allow_private if it may be reached"
    )]
    Private {
        /// The host.
        host: String,
        /// Where it is.
        address: IpAddr,
    },
    /// The host cannot be reached.
    #[error("{host} cannot be reached: {reason}")]
    Connect {
        /// The host.
        host: String,
        /// What was tried and what came of it.
        reason: String,
    },
    /// The proxy does not let the request through.
    #[error("the proxy {proxy} gives no way to {host}: {reason}")]
    Proxy {
        /// The proxy.
        proxy: String,
        /// The host.
        host: String,
        /// What it said.
        reason: String,
    },
    /// No encrypted connection came about, such as for an invalid certificate.
    #[error("no safe connection to {host}: {reason}")]
    Tls {
        /// The host.
        host: String,
        /// What is wrong.
        reason: String,
        /// Whether it is the certificate.
        is_certificate: bool,
    },
    /// Something took too long.
    #[error("{url}: {phase} took longer than {limit_ms} ms")]
    Timeout {
        /// The URL.
        url: String,
        /// What took too long.
        phase: Phase,
        /// How long it may take.
        limit_ms: u64,
    },
    /// The head of the answer is too long.
    #[error(
        "{url}: the head of the answer is longer than {bytes_max} bytes or has more than 100 lines"
    )]
    HeadTooLarge {
        /// The URL.
        url: String,
        /// How long it may be.
        bytes_max: usize,
    },
    /// The body is too long.
    #[error("{url}: the body is longer than {bytes_max} bytes")]
    TooLarge {
        /// The URL.
        url: String,
        /// How long it may be.
        bytes_max: usize,
    },
    /// The body grows beyond measure when it is decompressed.
    #[error(
        "{url}: {wire_bytes} bytes of the body became more than {decoded_bytes} when decompressed, which no honest page does"
    )]
    Bomb {
        /// The URL.
        url: String,
        /// How much had come.
        wire_bytes: usize,
        /// What it had become.
        decoded_bytes: usize,
    },
    /// The body ends too early or cannot be decompressed.
    #[error("{url}: the body is broken: {reason}")]
    BrokenBody {
        /// The URL.
        url: String,
        /// What is wrong.
        reason: String,
    },
    /// The server closed the connection instead of answering.
    #[error("{url}: the connection was closed before an answer came: {reason}")]
    Closed {
        /// The URL.
        url: String,
        /// What was noticed.
        reason: String,
    },
    /// The answer is no HTTP.
    #[error("{url}: the answer is no HTTP: {reason}")]
    Protocol {
        /// The URL.
        url: String,
        /// What is wrong.
        reason: String,
    },
    /// Redirects lead to where they came from.
    #[error("{url}: the redirect leads back to {to}, where it came from")]
    RedirectLoop {
        /// Who redirects.
        url: String,
        /// Where to.
        to: String,
    },
    /// There are too many redirects.
    #[error("{url}: after {redirects_max} redirects there is still another one")]
    TooManyRedirects {
        /// What was asked for.
        url: String,
        /// How many are followed.
        redirects_max: usize,
    },
    /// It cannot be told where a redirect leads.
    #[error("{url}: the redirect to {to:?} leads nowhere: {reason}")]
    RedirectWrong {
        /// Who redirects.
        url: String,
        /// Where to.
        to: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Whoever asked does not want to go where a redirect leads.
    #[error("{url}: the redirect to {to} is not followed: {reason}")]
    RedirectRefused {
        /// Who redirects.
        url: String,
        /// Where to.
        to: String,
        /// Why it is not followed.
        reason: String,
    },
}

/// What takes its time in a fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Waiting until fewer connections are in use.
    FreeConnection,
    /// Finding the address, connecting and agreeing on encryption.
    Connect,
    /// Waiting for the head of the answer.
    FirstByte,
    /// Waiting for the next part of the body.
    BetweenBytes,
    /// All of it.
    Whole,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::FreeConnection => "waiting for a free connection",
            Self::Connect => "connecting",
            Self::FirstByte => "waiting for the head of the answer",
            Self::BetweenBytes => "waiting for the next part of the body",
            Self::Whole => "fetching all of it",
        })
    }
}

/// The kinds of failures, for counting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FetchErrorKind {
    /// The URL is not fetched at all.
    Address,
    /// The name has no address.
    Name,
    /// The address is not public.
    Private,
    /// The host cannot be reached.
    Connect,
    /// The proxy refuses.
    Proxy,
    /// No encrypted connection.
    Tls,
    /// Something took too long.
    Timeout,
    /// Head or body are too long.
    TooLarge,
    /// A decompression bomb.
    Bomb,
    /// The body is broken.
    BrokenBody,
    /// The connection was closed instead of an answer.
    Closed,
    /// The answer is no HTTP.
    Protocol,
    /// Redirects lead in a circle.
    RedirectLoop,
    /// Too many redirects.
    TooManyRedirects,
    /// A redirect that leads nowhere.
    RedirectWrong,
    /// A redirect that whoever asked did not want.
    RedirectRefused,
}

impl FetchErrorKind {
    /// Its name in counters.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Address => "address",
            Self::Name => "name",
            Self::Private => "private",
            Self::Connect => "connect",
            Self::Proxy => "proxy",
            Self::Tls => "tls",
            Self::Timeout => "timeout",
            Self::TooLarge => "too-large",
            Self::Bomb => "bomb",
            Self::BrokenBody => "broken-body",
            Self::Closed => "closed",
            Self::Protocol => "protocol",
            Self::RedirectLoop => "redirect-loop",
            Self::TooManyRedirects => "too-many-redirects",
            Self::RedirectWrong => "redirect-wrong",
            Self::RedirectRefused => "redirect-refused",
        }
    }
}

impl FetchError {
    /// Of which kind it is.
    pub fn kind(&self) -> FetchErrorKind {
        match self {
            Self::Address { .. } => FetchErrorKind::Address,
            Self::Name { .. } => FetchErrorKind::Name,
            Self::Private { .. } => FetchErrorKind::Private,
            Self::Connect { .. } => FetchErrorKind::Connect,
            Self::Proxy { .. } => FetchErrorKind::Proxy,
            Self::Tls { .. } => FetchErrorKind::Tls,
            Self::Timeout { .. } => FetchErrorKind::Timeout,
            Self::HeadTooLarge { .. } | Self::TooLarge { .. } => FetchErrorKind::TooLarge,
            Self::Bomb { .. } => FetchErrorKind::Bomb,
            Self::BrokenBody { .. } => FetchErrorKind::BrokenBody,
            Self::Closed { .. } => FetchErrorKind::Closed,
            Self::Protocol { .. } => FetchErrorKind::Protocol,
            Self::RedirectLoop { .. } => FetchErrorKind::RedirectLoop,
            Self::TooManyRedirects { .. } => FetchErrorKind::TooManyRedirects,
            Self::RedirectWrong { .. } => FetchErrorKind::RedirectWrong,
            Self::RedirectRefused { .. } => FetchErrorKind::RedirectRefused,
        }
    }

    /// Whether it may work later.
    pub fn is_worth_retrying(&self) -> bool {
        match self {
            Self::Name { is_passing, .. } => *is_passing,
            Self::Tls { is_certificate, .. } => !is_certificate,
            Self::Connect { .. }
            | Self::Proxy { .. }
            | Self::Timeout { .. }
            | Self::BrokenBody { .. }
            | Self::Closed { .. } => true,
            Self::Address { .. }
            | Self::Private { .. }
            | Self::HeadTooLarge { .. }
            | Self::TooLarge { .. }
            | Self::Bomb { .. }
            | Self::Protocol { .. }
            | Self::RedirectLoop { .. }
            | Self::TooManyRedirects { .. }
            | Self::RedirectWrong { .. }
            | Self::RedirectRefused { .. } => false,
        }
    }
}
