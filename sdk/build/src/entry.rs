//! What is put around an author's code in other languages than Rust.

use std::fs;
use std::path::{Path, PathBuf};

use crate::BuildError;
use crate::project::Project;

/// The world of workers and that of routers, as authors get them.
pub const WIT: &str = include_str!("../../wit/worker.wit");

/// The folder `build/entry` of a project. What is in it always fits the program that builds.
pub(crate) struct Entry {
    folder: PathBuf,
}

impl Entry {
    /// Writes these files into it.
    pub fn write(project: &Project, files: &[(&str, &str)]) -> Result<Self, BuildError> {
        let folder = project.build_folder()?.join("entry");
        let entry = Self { folder };
        let make = |path: PathBuf| {
            fs::create_dir_all(&path).map_err(|source| BuildError::file("make", &path, source))
        };
        make(entry.wit())?;
        let wit = ("wit/worker.wit", WIT);
        for (name, text) in files.iter().chain([&wit]) {
            let path = entry.file(name);
            fs::write(&path, text).map_err(|source| BuildError::file("write", &path, source))?;
        }
        Ok(entry)
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The folder with the world.
    pub fn wit(&self) -> PathBuf {
        self.file("wit")
    }

    /// Where the tool puts the component.
    pub fn component(&self) -> PathBuf {
        self.file("component.wasm")
    }

    pub fn read_component(&self) -> Result<Vec<u8>, BuildError> {
        let path = self.component();
        fs::read(&path).map_err(|source| BuildError::file("read", &path, source))
    }
}
