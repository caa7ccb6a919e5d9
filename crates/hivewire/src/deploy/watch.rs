//! Watching a source: another digest is another version, and each version is tried once.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::{sleep, timeout};
use url::Url;

use super::fetch::{Fetched, Fetcher};
use super::notices::Notices;
use super::source::{Component, Source, SourceError, Stamp, read_settled, stamp};

/// How often a file is looked at, whether or not the system told that it changed.
const FILE_LOOK_EVERY: Duration = Duration::from_secs(2);
/// One save makes several notices.
const NOTICES_GATHERED_FOR: Duration = Duration::from_millis(30);
/// A URI that cannot be fetched is tried less and less often, up to this many intervals apart.
const TROUBLE_INTERVALS_MAX: u32 = 12;

/// Who wants to know about another version.
#[async_trait]
pub(super) trait OnChange: Send + Sync {
    /// There is another version. It is told once, whatever becomes of it.
    async fn changed(&self, component: Component);

    /// The source cannot be read, for this reason; or, without one, can be read again.
    async fn trouble(&self, reason: Option<String>);
}

/// What was seen last of a source.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    /// The digest of the version that was tried last.
    pub digest: String,
    /// What the server called it.
    pub etag: Option<String>,
}

/// Watches a source until it is dropped.
pub(super) async fn follow(
    source: Source,
    seen: Seen,
    fetcher: Fetcher,
    notices: Arc<Notices>,
    on_change: Arc<dyn OnChange>,
) {
    let follower = Follower {
        seen,
        fetcher,
        on_change,
        trouble: None,
    };
    match source {
        Source::File(path) => follower.follow_file(path, notices).await,
        Source::Uri(url) => follower.follow_uri(*url).await,
        // A version of a plug-in does not change, and what was sent cannot.
        Source::Plugin(_) | Source::BuiltIn(_) | Source::Upload => {}
    }
}

struct Follower {
    seen: Seen,
    fetcher: Fetcher,
    on_change: Arc<dyn OnChange>,
    trouble: Option<String>,
}

impl Follower {
    async fn follow_file(mut self, path: PathBuf, notices: Arc<Notices>) {
        let notice = notices.about(&path);
        let mut last = None;
        loop {
            match self.look_at_file(&path, &mut last).await {
                Ok(()) => self.tell_trouble(None).await,
                Err(error) => self.tell_trouble(Some(error.to_string())).await,
            }
            if timeout(FILE_LOOK_EVERY, notice.changed()).await.is_ok() {
                sleep(NOTICES_GATHERED_FOR).await;
            }
        }
    }

    /// Reads the file if it is not as it was.
    async fn look_at_file(
        &mut self,
        path: &Path,
        last: &mut Option<Stamp>,
    ) -> Result<(), SourceError> {
        let bytes_max = self.fetcher.settings().component_bytes_max;
        let (path, known) = (path.to_path_buf(), *last);
        let look = move || match stamp(&path)? {
            now if Some(now) == known => Ok(None),
            _ => read_settled(&path, bytes_max).map(Some),
        };
        let Some((now, component)) = blocking(look).await? else {
            return Ok(());
        };
        *last = Some(now);
        self.compare(component).await;
        Ok(())
    }

    async fn follow_uri(mut self, url: Url) {
        let mut interval_ms = self.fetcher.watch_interval_ms();
        let mut intervals = 1;
        loop {
            let interval = Duration::from_millis((*interval_ms.borrow_and_update()).max(10));
            // Not all nodes at the same time.
            let pause = (interval * intervals).mul_f64(0.9 + 0.2 * fastrand::f64());
            tokio::select! {
                () = sleep(pause) => {}
                Ok(()) = interval_ms.changed() => continue,
            }
            match self.look_at_uri(&url).await {
                Ok(()) => {
                    intervals = 1;
                    self.tell_trouble(None).await;
                }
                Err(error) => {
                    intervals = (intervals * 2).min(TROUBLE_INTERVALS_MAX);
                    self.tell_trouble(Some(error.to_string())).await;
                }
            }
        }
    }

    async fn look_at_uri(&mut self, url: &Url) -> Result<(), SourceError> {
        let (fetcher, url, etag) = (self.fetcher.clone(), url.clone(), self.seen.etag.clone());
        match blocking(move || fetcher.fetch(&url, etag.as_deref())).await? {
            Fetched::Same => {}
            Fetched::Component(component) => self.compare(component).await,
        }
        Ok(())
    }

    /// Tells if it is another version than the one that was tried last.
    async fn compare(&mut self, component: Component) {
        self.seen.etag.clone_from(&component.etag);
        if component.digest == self.seen.digest {
            return;
        }
        self.seen.digest.clone_from(&component.digest);
        self.on_change.changed(component).await;
    }

    async fn tell_trouble(&mut self, reason: Option<String>) {
        if self.trouble != reason {
            self.trouble.clone_from(&reason);
            self.on_change.trouble(reason).await;
        }
    }
}

/// Reading and fetching block.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, SourceError> + Send + 'static,
) -> Result<T, SourceError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(outcome) => outcome,
        Err(error) => Err(SourceError::Broken(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use super::*;
    use crate::deploy::settings::DeploySettings;

    #[derive(Default)]
    struct Told {
        versions: Mutex<Vec<Vec<u8>>>,
        troubles: Mutex<Vec<Option<String>>>,
    }

    #[async_trait]
    impl OnChange for Told {
        async fn changed(&self, component: Component) {
            self.versions.lock().push(component.bytes.to_vec());
        }

        async fn trouble(&self, reason: Option<String>) {
            self.troubles.lock().push(reason);
        }
    }

    async fn until(what: impl Fn() -> bool) {
        let waited = timeout(Duration::from_secs(20), async {
            while !what() {
                sleep(Duration::from_millis(5)).await;
            }
        });
        waited.await.expect("it did not happen in time");
    }

    #[tokio::test]
    async fn each_version_of_a_file_is_told_once() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("w.wasm");
        std::fs::write(&file, "one").unwrap();
        let told = Arc::new(Told::default());
        let seen = Seen {
            digest: crate::deploy::source::digest_of(b"one"),
            etag: None,
        };
        let following = tokio::spawn(follow(
            Source::File(file.clone()),
            seen,
            Fetcher::new(DeploySettings::default()),
            Arc::default(),
            told.clone(),
        ));
        let versions = |n: usize| told.versions.lock().len() == n;
        let replace = |text: &str| {
            std::fs::write(folder.path().join("new"), text).unwrap();
            std::fs::rename(folder.path().join("new"), &file).unwrap();
        };
        replace("two");
        until(|| versions(1)).await;
        // The same bytes again are no change.
        replace("two");
        std::fs::remove_file(&file).unwrap();
        until(|| told.troubles.lock().len() == 1).await;
        replace("three");
        until(|| versions(2)).await;
        until(|| told.troubles.lock().len() == 2).await;
        following.abort();
        assert_eq!(*told.versions.lock(), [b"two".to_vec(), b"three".to_vec()]);
        let troubles = told.troubles.lock();
        assert!(troubles[0].is_some() && troubles[1].is_none());
    }

    #[tokio::test]
    async fn what_a_server_lacks_is_trouble_and_no_change() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/w.wasm", listener.local_addr().unwrap());
        drop(listener);
        let told = Arc::new(Told::default());
        let settings = DeploySettings {
            allow_private_sources: true,
            watch_interval_ms: 20,
            ..DeploySettings::default()
        };
        let following = tokio::spawn(follow(
            url.parse().unwrap(),
            Seen::default(),
            Fetcher::new(settings),
            Arc::default(),
            told.clone(),
        ));
        until(|| !told.troubles.lock().is_empty()).await;
        following.abort();
        assert!(told.versions.lock().is_empty());
    }
}
