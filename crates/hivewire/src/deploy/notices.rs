//! Tells when a file may have changed. The folder is watched rather than the file, so that a file
//! renamed into its place is noticed.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use notify::event::{AccessKind, AccessMode, EventKind};
use notify::{Event, RecommendedWatcher, RecursiveMode, Watcher};
use parking_lot::Mutex;
use tokio::sync::Notify;

/// Who waits for which file.
type Waiting = Arc<Mutex<HashMap<PathBuf, Vec<Arc<Notify>>>>>;

/// Watches folders on behalf of whoever asks. Where the system cannot do that, nothing is told, and
/// whoever asked has to look for himself now and then.
#[derive(Default)]
pub(super) struct Notices {
    waiting: Waiting,
    folders: Mutex<Folders>,
}

#[derive(Default)]
struct Folders {
    watcher: Option<RecommendedWatcher>,
    /// How many want to know about each.
    users: HashMap<PathBuf, usize>,
}

/// Wakes whoever waits when a file may have changed. Dropping it ends that.
pub(super) struct Notice {
    notices: Arc<Notices>,
    file: PathBuf,
    wake: Arc<Notify>,
}

impl Notices {
    /// Tells about this file from now on.
    pub fn about(self: &Arc<Self>, file: &Path) -> Notice {
        let wake = Arc::new(Notify::new());
        let mut waiting = self.waiting.lock();
        waiting
            .entry(file.to_path_buf())
            .or_default()
            .push(wake.clone());
        drop(waiting);
        if let Some(folder) = file.parent() {
            self.watch(folder);
        }
        Notice {
            notices: self.clone(),
            file: file.to_path_buf(),
            wake,
        }
    }

    fn watch(&self, folder: &Path) {
        let mut folders = self.folders.lock();
        let users = folders.users.entry(folder.to_path_buf()).or_insert(0);
        *users += 1;
        if *users > 1 {
            return;
        }
        if let Err(error) = folders.start(folder, &self.waiting) {
            tracing::warn!(folder = %folder.display(), %error, "cannot watch this folder; its files are looked at every two seconds");
        }
    }

    fn unwatch(&self, folder: &Path) {
        let mut folders = self.folders.lock();
        let Some(users) = folders.users.get_mut(folder) else {
            return;
        };
        *users -= 1;
        if *users > 0 {
            return;
        }
        folders.users.remove(folder);
        if let Some(watcher) = &mut folders.watcher {
            // It fails if the folder is gone, and then there is nothing to undo.
            let _ = watcher.unwatch(folder);
        }
    }
}

impl Folders {
    fn start(&mut self, folder: &Path, waiting: &Waiting) -> notify::Result<()> {
        let watcher = match &mut self.watcher {
            Some(watcher) => watcher,
            empty => {
                let waiting = waiting.clone();
                let tell = move |event: notify::Result<Event>| tell(&waiting, event);
                empty.insert(notify::recommended_watcher(tell)?)
            }
        };
        watcher.watch(folder, RecursiveMode::NonRecursive)
    }
}

fn tell(waiting: &Waiting, event: notify::Result<Event>) {
    let waiting = waiting.lock();
    let wake = |all: &Vec<Arc<Notify>>| all.iter().for_each(|wake| wake.notify_one());
    match event {
        Ok(event) if event.need_rescan() => waiting.values().for_each(wake),
        Ok(event) if is_change(event.kind) => {
            for path in &event.paths {
                waiting.get(path).into_iter().for_each(wake);
            }
        }
        Ok(_) => {}
        // Something was missed: look at all of them.
        Err(_) => waiting.values().for_each(wake),
    }
}

/// Reading is no change, and we read.
fn is_change(kind: EventKind) -> bool {
    match kind {
        EventKind::Access(access) => access == AccessKind::Close(AccessMode::Write),
        _ => true,
    }
}

impl Notice {
    /// Waits until the file may have changed since the last call.
    pub async fn changed(&self) {
        self.wake.notified().await;
    }
}

impl Drop for Notice {
    fn drop(&mut self) {
        let mut waiting = self.notices.waiting.lock();
        if let Some(all) = waiting.get_mut(&self.file) {
            all.retain(|wake| !Arc::ptr_eq(wake, &self.wake));
            if all.is_empty() {
                waiting.remove(&self.file);
            }
        }
        drop(waiting);
        if let Some(folder) = self.file.parent() {
            self.notices.unwatch(folder);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn writing_and_renaming_into_place_are_told_and_reading_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("w.wasm");
        std::fs::write(&file, "one").unwrap();
        let notices = Arc::new(Notices::default());
        let notice = notices.about(&file);
        let told = async |limit: u64| {
            let limit = Duration::from_millis(limit);
            timeout(limit, notice.changed()).await.is_ok()
        };
        std::fs::write(&file, "two").unwrap();
        assert!(told(10_000).await);
        while told(100).await {}
        std::fs::read(&file).unwrap();
        std::fs::write(folder.path().join("other"), "x").unwrap();
        assert!(!told(200).await);
        std::fs::rename(folder.path().join("other"), &file).unwrap();
        assert!(told(10_000).await);
        drop(notice);
        assert!(notices.waiting.lock().is_empty() && notices.folders.lock().users.is_empty());
    }
}
