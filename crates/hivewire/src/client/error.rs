//! What can go wrong between a command and its node, and what to do about it.

use std::io;
use std::path::PathBuf;

use crate::data_folder::DataError;

/// Why a command got no answer, or no good one.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    /// The address cannot be used.
    #[error(
        "`{server}` is no address of a node: it looks like http://127.0.0.1:8000 (https is not spoken: use a tunnel)"
    )]
    BadServer { server: String },
    /// The token of the data folder cannot be read.
    #[error(transparent)]
    Token(DataError),
    /// Nothing listens there.
    #[error(
        "nothing answers at {server}: start it with `hivewire up`, or name another node with --server URL"
    )]
    NothingAnswers { server: String },
    /// It takes too long.
    #[error("{server} did not answer in time: look at its log")]
    TooSlow { server: String },
    /// The answer ended in its middle.
    #[error("{server} broke the connection off: it was stopped or restarted")]
    BrokeOff { server: String },
    /// The token is missing or wrong.
    #[error(
        "{server} {}: give it with --token or HIVEWIRE_TOKEN, or name the node's data folder with --data (looked for {})",
        if *.given { "does not accept this token" } else { "needs a token" }, .token_file.display()
    )]
    Unauthorized {
        server: String,
        token_file: PathBuf,
        given: bool,
    },
    /// The node says no.
    #[error("{title} ({status}): {detail}")]
    Refused {
        status: u16,
        /// The type of the problem document.
        kind: String,
        title: String,
        detail: String,
        /// How many messages of a batch were taken in before.
        accepted: u64,
    },
    /// What answers is no Hivewire, or something else broke.
    #[error("talking to {server} failed: {reason}")]
    Other { server: String, reason: String },
}

impl ClientError {
    pub fn of(server: &str, error: ureq::Error) -> Self {
        let server = server.to_owned();
        match error {
            ureq::Error::ConnectionFailed | ureq::Error::HostNotFound => {
                Self::NothingAnswers { server }
            }
            ureq::Error::Timeout(ureq::Timeout::Connect | ureq::Timeout::Resolve) => {
                Self::NothingAnswers { server }
            }
            ureq::Error::Timeout(_) => Self::TooSlow { server },
            ureq::Error::Io(error) => Self::of_io(server, &error),
            other => Self::Other {
                server,
                reason: other.to_string(),
            },
        }
    }

    fn of_io(server: String, error: &io::Error) -> Self {
        use io::ErrorKind::{
            BrokenPipe, ConnectionAborted, ConnectionRefused, ConnectionReset, TimedOut,
            UnexpectedEof,
        };
        match error.kind() {
            ConnectionRefused => Self::NothingAnswers { server },
            TimedOut => Self::TooSlow { server },
            UnexpectedEof | ConnectionReset | ConnectionAborted | BrokenPipe => {
                Self::BrokeOff { server }
            }
            _ => Self::Other {
                server,
                reason: error.to_string(),
            },
        }
    }
}
