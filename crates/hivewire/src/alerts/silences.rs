//! Silences are a document of the bus: all nodes that share it see them, and they survive a restart.

use std::sync::Arc;
use std::time::Duration;

use bus::{Bus, BusError, Document, Put};
use control::alerts::Silences;
use kernel::Name;

/// The document.
const NAME: &str = "hivewire.silences";
/// How long a change may take at the bus.
const CALL: Duration = Duration::from_secs(5);
/// How often a change is tried while others make theirs.
const CHANGES_MAX: usize = 10;

/// Where the silences lie.
pub(super) struct SilenceStore {
    bus: Arc<dyn Bus>,
    name: Name,
}

impl SilenceStore {
    pub fn new(bus: Arc<dyn Bus>) -> Self {
        let name = Name::new(NAME).expect("it is a name");
        Self { bus, name }
    }

    /// All silences.
    pub async fn read(&self, timeout: Duration) -> Result<Silences, BusError> {
        let document = self.bus.document(&self.name, timeout).await?;
        Ok(parsed(&document))
    }

    /// Changes them; gives what the change gave, and all silences after it.
    pub async fn change<T>(
        &self,
        change: impl Fn(&mut Silences) -> T + Send,
    ) -> Result<(T, Silences), BusError> {
        for _ in 0..CHANGES_MAX {
            let document = self.bus.document(&self.name, CALL).await?;
            let before = parsed(&document);
            let mut silences = before.clone();
            let changed = change(&mut silences);
            if silences == before {
                return Ok((changed, silences));
            }
            let body = serde_json::to_vec(&silences).map_err(|error| BusError::Refused {
                reason: format!("silences cannot be written: {error}"),
            })?;
            let put = self
                .bus
                .put_document(&self.name, document.revision, Some(&body), CALL);
            if let Put::Stored(_) = put.await? {
                return Ok((changed, silences));
            }
        }
        Err(BusError::Refused {
            reason: "others change the silences all the time: try again".to_owned(),
        })
    }
}

fn parsed(document: &Document) -> Silences {
    let Some(body) = &document.body else {
        return Silences::default();
    };
    serde_json::from_slice(body).unwrap_or_else(|error| {
        tracing::warn!(%error, "the silences cannot be read, so nothing is silenced");
        Silences::default()
    })
}
