//! Files of a folder.

use std::path::Path;

use tower_http::services::ServeDir;

/// Files of a folder, with their types, ranges, and answers to whether they changed. Paths cannot leave the folder.
#[derive(Clone, Debug)]
pub struct Files {
    service: ServeDir,
}

impl Files {
    /// All files in this folder and the folders in it. A folder is answered with its `index.html`.
    pub fn folder(folder: impl AsRef<Path>) -> Self {
        Self {
            service: ServeDir::new(folder),
        }
    }

    /// Files that were packed beforehand: `page.html.gz` and `page.html.br` are sent instead of `page.html` to those who
    /// take them.
    pub fn packed_beforehand(self) -> Self {
        Self {
            service: self.service.precompressed_gzip().precompressed_br(),
        }
    }

    pub(crate) fn service(self) -> ServeDir {
        self.service
    }
}
