//! The host outside of turns: there is none.

use std::sync::{Arc, LazyLock};
use std::time::SystemTime;

use async_trait::async_trait;
use bytes::Bytes;
use kernel::worker::{Failure, FailureKind, Host, LogLevel, Ticket};
use kernel::{Address, Timestamp};

/// Refuses everything: `save` and `load`, and the code that runs before `init`, are no turns.
pub(crate) struct Nobody;

impl Nobody {
    /// The one that all instances share.
    pub(crate) fn shared() -> Arc<dyn Host> {
        static NOBODY: LazyLock<Arc<Nobody>> = LazyLock::new(|| Arc::new(Nobody));
        NOBODY.clone()
    }
}

fn refusal() -> Failure {
    Failure::of(
        FailureKind::Denied,
        "nothing can be sent, read or changed outside of init, handle and stop",
    )
}

#[async_trait]
impl Host for Nobody {
    async fn state(&self, _key: &[u8]) -> Result<Option<Bytes>, Failure> {
        Err(refusal())
    }

    async fn scan(
        &self,
        _prefix: &[u8],
        _after: Option<&[u8]>,
        _pairs_max: usize,
    ) -> Result<Vec<(Bytes, Bytes)>, Failure> {
        Err(refusal())
    }

    fn may_send(&self, _to: &Address) -> Result<(), Failure> {
        Err(refusal())
    }

    fn may_emit(&self, _output: &str) -> Result<(), Failure> {
        Err(refusal())
    }

    fn next_ticket(&self) -> Ticket {
        0
    }

    fn now(&self) -> Timestamp {
        let since_1970 = SystemTime::now()
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap_or_default();
        Timestamp::from_micros(since_1970.as_micros() as u64)
    }

    fn log(&self, _level: LogLevel, _line: &str) {}
}

/// What a worker may do only in a turn.
pub(crate) fn only_in_turn(in_turn: bool) -> Result<(), Failure> {
    match in_turn {
        true => Ok(()),
        false => Err(refusal()),
    }
}
