//! The workers in `tests/workers`, for tests of the whole repository.

use std::collections::hash_map::DefaultHasher;
use std::fs::{self, File};
use std::hash::{Hash, Hasher};
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::project::{Language, Project};
use crate::{BuildError, build, component, create, finish, rust};

/// What all components depend on, seen from the repository.
const SOURCES: [&str; 2] = ["sdk/wit", "sdk/build/src"];
/// What others leave in those folders.
const NO_SOURCES: [&str; 5] = ["Cargo.lock", "target", "build", "node_modules", ".venv"];

/// The component of a worker in `tests/workers`, built if need be.
///
/// The first call builds them all at once into `target/workers`; others, in this process or
/// another, wait for it. When no source changed since, only their times are looked at.
pub fn test_worker(name: &str) -> Result<PathBuf, BuildError> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let components = BUILT
        .get_or_init(|| build_all().map_err(|error| error.to_string()))
        .as_ref()
        .map_err(|reason| BuildError::NotAWorker {
            reason: reason.clone(),
        })?;
    let path = components.join(format!("{name}.wasm"));
    match path.is_file() {
        true => Ok(path),
        false => Err(BuildError::NoProject {
            folder: repository().join("tests/workers").join(name),
        }),
    }
}

fn repository() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// The component of a project as [`crate::create`] makes it, built if need be. JavaScript and Python
/// take the tools that `tests/tools/install` has put into `.tools`.
pub fn test_example(language: Language) -> Result<PathBuf, BuildError> {
    new_project("example", language, None)
}

/// The component of a worker in `tests/probes`, which does what it is told; built if need be. In
/// Rust there is none.
pub fn test_probe(language: Language) -> Result<PathBuf, BuildError> {
    let source = match language {
        Language::Rust => {
            return Err(BuildError::NoProject {
                folder: repository().join("tests/probes"),
            });
        }
        Language::Js => "worker.js",
        Language::Python => "worker.py",
    };
    new_project("probe", language, Some(source))
}

/// Makes a new project, with code from `tests/probes` if need be, and builds it.
fn new_project(kind: &str, language: Language, probe: Option<&str>) -> Result<PathBuf, BuildError> {
    let name = format!("{kind}-{}", language.name());
    let example = format!("examples/workers/{}", language.name());
    let sdk = format!("sdk/{}", language.name());
    let components = once(&name, &[&example, &sdk, "tests/probes"], |target_folder| {
        let folder = target_folder.join("new").join(&name);
        if folder.exists() {
            fs::remove_dir_all(&folder)
                .map_err(|source| BuildError::file("remove", &folder, source))?;
        }
        create(&folder, &name, language)?;
        if let Some(probe) = probe {
            let from = repository().join("tests/probes").join(probe);
            fs::copy(&from, folder.join("src").join(probe))
                .map_err(|source| BuildError::file("copy", &from, source))?;
        }
        lend_tools(&folder, language, target_folder)
            .map_err(|source| BuildError::file("link tools into", &folder, source))?;
        let components = target_folder.join("components");
        let out = components.join(format!("{name}.wasm"));
        build(&folder, Some(&out)).map(drop)
    })?;
    Ok(components.join(format!("{name}.wasm")))
}

/// Saves installing tools, and compiling the standard library, once more.
fn lend_tools(project: &Path, language: Language, target_folder: &Path) -> io::Result<()> {
    let tools = repository().join(".tools");
    let (from, to) = match language {
        Language::Rust => (target_folder.to_owned(), "target"),
        Language::Js => (tools.join("node/node_modules"), "node_modules"),
        Language::Python => (tools.join("venv"), ".venv"),
    };
    symlink(from.canonicalize()?, project.join(to))
}

/// Builds all of `tests/workers`, unless that was done; gives the folder of the components.
fn build_all() -> Result<PathBuf, BuildError> {
    once("all", &["tests/workers", "sdk/rust"], |target_folder| {
        let workers = repository().join("tests/workers");
        rust::compile(&workers, target_folder)?;
        for folder in worker_folders(&workers)? {
            let project = Project::open(&folder)?;
            let module = rust::read_module(target_folder, &rust::crate_name(&folder)?)?;
            let name = format!("{}.wasm", project.descriptor.name);
            let path = target_folder.join("components").join(name);
            finish(component::of_module(&module)?, project.descriptor, path)?;
        }
        Ok(())
    })
}

/// Builds something in `target/workers`, unless its sources are those of the last time; gives the
/// folder of the components. Others who want to build wait.
fn once(
    name: &str,
    sources: &[&str],
    build: impl FnOnce(&Path) -> Result<(), BuildError>,
) -> Result<PathBuf, BuildError> {
    let target_folder = repository().join("target/workers");
    let components = target_folder.join("components");
    fs::create_dir_all(&components)
        .map_err(|source| BuildError::file("make", &components, source))?;
    let lock_path = target_folder.join("lock");
    let lock = File::create(&lock_path)
        .and_then(|lock| lock.lock().map(|()| lock))
        .map_err(|source| BuildError::file("lock", &lock_path, source))?;
    let stamp_path = target_folder.join(format!("stamp-{name}"));
    let stamp =
        stamp(sources).map_err(|source| BuildError::file("look at", repository(), source))?;
    if !fs::read_to_string(&stamp_path).is_ok_and(|built| built == stamp) {
        build(&target_folder)?;
        fs::write(&stamp_path, stamp)
            .map_err(|source| BuildError::file("write", &stamp_path, source))?;
    }
    drop(lock);
    Ok(components)
}

fn worker_folders(workers: &Path) -> Result<Vec<PathBuf>, BuildError> {
    let entries = fs::read_dir(workers)
        .and_then(|entries| entries.collect::<io::Result<Vec<_>>>())
        .map_err(|source| BuildError::file("list", workers, source))?;
    Ok(entries
        .into_iter()
        .map(|entry| entry.path())
        .filter(|path| path.join(crate::PROJECT_FILE).is_file())
        .collect())
}

/// Changes when a source changes: names, lengths and times of all of them.
fn stamp(sources: &[&str]) -> io::Result<String> {
    let mut hasher = DefaultHasher::new();
    for source in SOURCES.iter().chain(sources) {
        hash_files(&repository().join(source), &mut hasher)?;
    }
    Ok(format!("{:016x}", hasher.finish()))
}

fn hash_files(folder: &Path, hasher: &mut DefaultHasher) -> io::Result<()> {
    let mut entries = fs::read_dir(folder)?.collect::<io::Result<Vec<_>>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        if NO_SOURCES.iter().any(|name| entry.file_name() == *name) {
            continue;
        }
        let metadata = entry.metadata()?;
        if metadata.is_dir() {
            hash_files(&entry.path(), hasher)?;
        } else {
            entry.path().hash(hasher);
            metadata.len().hash(hasher);
            metadata.modified()?.hash(hasher);
        }
    }
    Ok(())
}
