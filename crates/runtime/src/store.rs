//! Where the state of a stage is: on the bus, or in memory.

mod pairs;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bus::{Bus, BusError, StateWrite};
use bytes::Bytes;
use kernel::StageAddress;
use kernel::worker::{Failure, FailureKind};
use parking_lot::Mutex;

use self::pairs::Pairs;
use crate::scope::{Scope, keys};

const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// The state of a stage.
pub(crate) enum Store {
    /// It is part of the bus, which commits it together with messages.
    Bus(Arc<dyn Bus>, StageAddress),
    /// It ends with the process.
    Memory(Mutex<HashMap<Scope, Pairs>>),
}

impl Store {
    pub fn memory() -> Self {
        Self::Memory(Mutex::default())
    }

    pub async fn get(&self, scope: &Scope, key: &[u8]) -> Result<Option<Bytes>, BusError> {
        match self {
            Self::Bus(bus, stage) => bus.state(&scope.bucket(stage), key, READ_TIMEOUT).await,
            Self::Memory(scopes) => {
                let scopes = scopes.lock();
                let value = scopes.get(scope).and_then(|pairs| pairs.get(key));
                Ok(value.cloned())
            }
        }
    }

    /// Pairs in order, from the first key after `after` that begins with `prefix`.
    pub async fn scan(
        &self,
        scope: &Scope,
        prefix: &[u8],
        after: Option<&[u8]>,
        pairs_max: usize,
    ) -> Result<Vec<(Bytes, Bytes)>, BusError> {
        match self {
            Self::Bus(bus, stage) => {
                scan_bus(&**bus, &scope.bucket(stage), prefix, after, pairs_max).await
            }
            Self::Memory(scopes) => {
                let scopes = scopes.lock();
                let found = scopes.get(scope);
                Ok(found.map_or_else(Vec::new, |pairs| pairs.scan(prefix, after, pairs_max)))
            }
        }
    }

    /// The value that a worker gave to a key.
    pub async fn value(&self, scope: &Scope, key: &[u8]) -> Result<Option<Bytes>, Failure> {
        let value = self.get(scope, &keys::user(key)).await;
        value.map_err(host_failure)
    }

    /// The values that a worker gave to several keys, in the same order.
    pub async fn values_of(
        &self,
        scope: &Scope,
        wanted: &[&[u8]],
    ) -> Result<Vec<Option<Bytes>>, Failure> {
        let wanted: Vec<Bytes> = wanted.iter().map(|key| keys::user(key)).collect();
        match self {
            Self::Bus(bus, stage) => {
                let wanted: Vec<&[u8]> = wanted.iter().map(|key| &key[..]).collect();
                let bucket = scope.bucket(stage);
                let values = bus.states(&bucket, &wanted, READ_TIMEOUT).await;
                values.map_err(host_failure)
            }
            Self::Memory(scopes) => {
                let scopes = scopes.lock();
                let pairs = scopes.get(scope);
                let value = |key: &Bytes| pairs.and_then(|pairs| pairs.get(key)).cloned();
                Ok(wanted.iter().map(value).collect())
            }
        }
    }

    /// What a worker keeps under keys that begin with `prefix`.
    pub async fn values(
        &self,
        scope: &Scope,
        prefix: &[u8],
        after: Option<&[u8]>,
        pairs_max: usize,
    ) -> Result<Vec<(Bytes, Bytes)>, Failure> {
        let (prefix, after) = (keys::user(prefix), after.map(keys::user));
        let found = self.scan(scope, &prefix, after.as_deref(), pairs_max).await;
        let without_prefix = |(key, value): (Bytes, Bytes)| (key.slice(1..), value);
        let found = found.map_err(host_failure)?.into_iter();
        Ok(found.map(without_prefix).collect())
    }

    /// Writes to memory at once. What is on the bus is written by a commit.
    pub fn write_memory(&self, scope: &Scope, writes: Vec<StateWrite>) {
        let Self::Memory(scopes) = self else {
            unreachable!("state on the bus is written by commits");
        };
        if writes.is_empty() {
            return;
        }
        let mut scopes = scopes.lock();
        let pairs = scopes.entry(scope.clone()).or_default();
        for write in writes {
            match write {
                StateWrite::Set { key, value } => pairs.set(key, value),
                StateWrite::Remove { key } => pairs.remove(&key),
            }
        }
        if pairs.is_empty() {
            scopes.remove(scope);
        }
    }

    pub fn is_memory(&self) -> bool {
        matches!(self, Self::Memory(_))
    }
}

/// The bus failed, not the worker.
pub(crate) fn host_failure(error: BusError) -> Failure {
    Failure::of(FailureKind::Host, error.to_string())
}

/// A scan of the bus that keeps to a prefix.
async fn scan_bus(
    bus: &dyn Bus,
    bucket: &kernel::Name,
    prefix: &[u8],
    after: Option<&[u8]>,
    pairs_max: usize,
) -> Result<Vec<(Bytes, Bytes)>, BusError> {
    let mut found = Vec::new();
    // A scan begins after a key, so a key that is the prefix itself is looked up apart.
    if after.is_none()
        && let Some(value) = bus.state(bucket, prefix, READ_TIMEOUT).await?
    {
        found.push((Bytes::copy_from_slice(prefix), value));
    }
    if found.len() >= pairs_max {
        return Ok(found);
    }
    let from = after.unwrap_or(prefix);
    let wanted = pairs_max - found.len();
    let pairs = bus.scan(bucket, Some(from), wanted, READ_TIMEOUT).await?;
    let matching = pairs
        .into_iter()
        .take_while(|(key, _)| key.starts_with(prefix));
    found.extend(matching);
    Ok(found)
}
