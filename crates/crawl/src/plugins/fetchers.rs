//! Fetchers that plug-ins of a node share: one for equal settings, so that they share connections, too.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use flows::plugins::{Environment, ParameterError};
use parking_lot::Mutex;

use crate::fetch::{FetchSettings, Fetcher};

/// The fetchers of a node, by their settings. Those that nobody uses any more go.
#[derive(Default)]
pub(super) struct Fetchers(Mutex<HashMap<String, Weak<Fetcher>>>);

impl Fetchers {
    /// Those of the node.
    pub fn of(environment: &Environment) -> Arc<Self> {
        environment.shared.get_or_make(Self::default)
    }

    /// The one with these settings.
    pub fn get(&self, settings: &FetchSettings) -> Result<Arc<Fetcher>, ParameterError> {
        check(settings)?;
        let name = serde_json::to_string(settings)
            .map_err(|error| ParameterError::new("fetch", error.to_string()))?;
        let mut fetchers = self.0.lock();
        fetchers.retain(|_, fetcher| fetcher.strong_count() > 0);
        if let Some(fetcher) = fetchers.get(&name).and_then(Weak::upgrade) {
            return Ok(fetcher);
        }
        let fetcher = Fetcher::new(settings.clone()).map_err(wrong)?;
        fetchers.insert(name, Arc::downgrade(&fetcher));
        Ok(fetcher)
    }
}

/// Whether settings can be used.
pub(super) fn check(settings: &FetchSettings) -> Result<(), ParameterError> {
    settings.check().map_err(wrong)
}

fn wrong(error: crate::fetch::SettingsError) -> ParameterError {
    ParameterError::new(format!("fetch.{}", error.field), error.reason)
}
