//! Names and their addresses: looked up once and remembered for a while, also that there are none.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use super::error::FetchError;
use super::settings::FetchSettings;

/// So many names are looked up at the same time: each takes a thread.
const LOOKUPS_MAX: usize = 32;
/// How long it is remembered that a name has no address.
const NOTHING_KEPT: Duration = Duration::from_secs(30);

/// Finds the addresses of names.
#[async_trait]
pub trait Resolve: Send + Sync {
    /// The addresses of this name, the best first.
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>>;
}

/// Asks the operating system.
pub(super) struct System;

#[async_trait]
impl Resolve for System {
    async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        let found = tokio::net::lookup_host((name, 0)).await?;
        Ok(found.map(|address| address.ip()).collect())
    }
}

type Found = Result<Arc<[IpAddr]>, Arc<str>>;

struct Known {
    found: Found,
    until: Instant,
}

/// Names and their addresses.
pub(super) struct Names {
    shared: Arc<Shared>,
}

struct Shared {
    resolve: Arc<dyn Resolve>,
    known: Mutex<HashMap<Box<str>, Known>>,
    lookups: Arc<Semaphore>,
    kept: Duration,
    names_max: usize,
}

impl Names {
    pub fn new(settings: &FetchSettings, resolve: Arc<dyn Resolve>) -> Self {
        Self {
            shared: Arc::new(Shared {
                resolve,
                known: Mutex::default(),
                lookups: Arc::new(Semaphore::new(LOOKUPS_MAX)),
                kept: Duration::from_millis(settings.names_kept_ms),
                names_max: settings.names_max,
            }),
        }
    }

    /// The addresses of this name.
    pub async fn addresses(&self, name: &str) -> Result<Arc<[IpAddr]>, FetchError> {
        let found = match self.shared.known(name) {
            Some(found) => found,
            None => self.look_up(name).await,
        };
        found.map_err(|reason| FetchError::Name {
            host: name.to_owned(),
            is_passing: !is_final(&reason),
            reason: reason.to_string(),
        })
    }

    /// The look-up goes on when nobody waits for it any more, and keeps its place until it has ended: a thread is busy with it.
    async fn look_up(&self, name: &str) -> Found {
        let closed = |_| Arc::from("the fetcher is being closed");
        let lookups = self.shared.lookups.clone();
        let place = lookups.acquire_owned().await.map_err(closed)?;
        if let Some(found) = self.shared.known(name) {
            return found;
        }
        let shared = self.shared.clone();
        let name = name.to_owned();
        let look_up = tokio::spawn(async move {
            let found = shared.resolve.resolve(&name).await;
            let found = found
                .map(Arc::from)
                .map_err(|error| Arc::from(error.to_string()));
            shared.remember(&name, &found);
            drop(place);
            found
        });
        look_up
            .await
            .unwrap_or_else(|error| Err(Arc::from(error.to_string())))
    }
}

impl Shared {
    fn known(&self, name: &str) -> Option<Found> {
        let known = self.known.lock();
        let known = known.get(name)?;
        (known.until > Instant::now()).then(|| known.found.clone())
    }

    fn remember(&self, name: &str, found: &Found) {
        let now = Instant::now();
        let kept = match found {
            Ok(_) => self.kept,
            Err(_) => self.kept.min(NOTHING_KEPT),
        };
        let mut known = self.known.lock();
        if known.len() >= self.names_max {
            known.retain(|_, known| known.until > now);
        }
        if known.len() >= self.names_max {
            // All of them are new, so any half is as good as the other.
            let mut is_kept = false;
            known.retain(|_, _| {
                is_kept = !is_kept;
                is_kept && self.names_max > 1
            });
        }
        let fresh = Known {
            found: found.clone(),
            until: now + kept,
        };
        known.insert(name.into(), fresh);
    }
}

/// Whether the name does not exist at all, as far as the text of the operating system tells.
fn is_final(reason: &str) -> bool {
    [
        "not known",
        "No address associated",
        "nodename nor servname",
    ]
    .iter()
    .any(|text| reason.contains(text))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[derive(Default)]
    struct Counted(AtomicUsize);

    #[async_trait]
    impl Resolve for Counted {
        async fn resolve(&self, name: &str) -> io::Result<Vec<IpAddr>> {
            self.0.fetch_add(1, Ordering::Relaxed);
            match name {
                "nothing" => Err(io::Error::other("Name or service not known")),
                _ => Ok(vec!["1.1.1.1".parse().unwrap()]),
            }
        }
    }

    fn names(settings: &FetchSettings) -> (Names, Arc<Counted>) {
        let counted = Arc::new(Counted::default());
        (Names::new(settings, counted.clone()), counted)
    }

    #[tokio::test]
    async fn a_name_is_looked_up_once_whether_it_exists_or_not() {
        let (names, counted) = names(&FetchSettings::default());
        for _ in 0..3 {
            names.addresses("some").await.unwrap();
            let error = names.addresses("nothing").await.unwrap_err();
            assert!(!error.is_worth_retrying(), "{error}");
        }
        assert_eq!(counted.0.load(Ordering::Relaxed), 2);
    }

    #[tokio::test]
    async fn names_are_forgotten_after_a_while_and_when_there_are_many() {
        let (names, counted) = names(&FetchSettings {
            names_kept_ms: 0,
            names_max: 4,
            ..FetchSettings::default()
        });
        names.addresses("some").await.unwrap();
        names.addresses("some").await.unwrap();
        assert_eq!(counted.0.load(Ordering::Relaxed), 2);
        for number in 0..100 {
            names.addresses(&number.to_string()).await.unwrap();
            assert!(names.shared.known.lock().len() <= 4);
        }
    }
}
