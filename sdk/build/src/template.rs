//! New worker projects. They are made of the examples in `examples/workers`, so that these are
//! tried, and hold a copy of the SDK, so that they fit the program that made them.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::project::{Language, check_name};
use crate::{BuildError, PROJECT_FILE};

/// The name of the example, which the files for people mention.
const EXAMPLE_NAME: &str = "counter";
/// Where the example of Rust finds the SDK, and where a project does.
const SDK_OF_EXAMPLE: &str = "../../../sdk/rust";
const SDK_OF_PROJECT: &str = "sdk/rust";

/// A file: its place in the project, and what it holds.
type File = (&'static str, &'static str);

macro_rules! files {
    ($from:literal: $($path:literal),* $(,)?) => {
        &[$(($path, include_str!(concat!("../../../", $from, "/", $path)))),*]
    };
}

const RUST: &[File] = files!("examples/workers/rust":
    ".gitignore", "Cargo.toml", "README.md", "src/lib.rs", "worker.toml");
const JS: &[File] = files!("examples/workers/js":
    ".gitignore", "README.md", "package.json", "src/worker.js", "worker.toml");
const PYTHON: &[File] = files!("examples/workers/python":
    ".gitignore", "README.md", "requirements.txt", "src/worker.py", "worker.toml");
const RUST_SDK: &[File] = files!(".":
    "sdk/rust/Cargo.toml",
    "sdk/rust/src/bindings/mod.rs",
    "sdk/rust/src/bindings/router.rs",
    "sdk/rust/src/bindings/worker.rs",
    "sdk/rust/src/context.rs",
    "sdk/rust/src/emitted.rs",
    "sdk/rust/src/exports.rs",
    "sdk/rust/src/heap.rs",
    "sdk/rust/src/lib.rs",
    "sdk/rust/src/message.rs",
    "sdk/rust/src/outgoing.rs",
    "sdk/rust/src/router.rs",
    "sdk/rust/src/state.rs",
    "sdk/rust/src/worker.rs",
    "sdk/wit/worker.wit",
);
const JS_SDK: &[File] = &[("src/hivewire.d.ts", include_str!("../../js/hivewire.d.ts"))];
const PYTHON_SDK: &[File] = &[("src/hivewire.py", include_str!("../../python/hivewire.py"))];

/// Makes the project `name` in `folder`, which must not exist or be empty; gives the files.
pub fn create(folder: &Path, name: &str, language: Language) -> Result<Vec<PathBuf>, BuildError> {
    check_name("a worker", name).map_err(|reason| BuildError::Project {
        path: folder.join(PROJECT_FILE),
        reason,
    })?;
    check_empty(folder)?;
    let (example, sdk) = match language {
        Language::Rust => (RUST, RUST_SDK),
        Language::Js => (JS, JS_SDK),
        Language::Python => (PYTHON, PYTHON_SDK),
    };
    let mut paths = Vec::new();
    for (path, text) in example {
        paths.push(write(folder, path, &adapted(path, text, name))?);
    }
    for (path, text) in sdk {
        paths.push(write(folder, path, text)?);
    }
    Ok(paths)
}

/// A file of the example for a project of this name.
fn adapted(path: &str, text: &str, name: &str) -> String {
    match path {
        "README.md" | PROJECT_FILE => text.replace(EXAMPLE_NAME, name),
        "Cargo.toml" => text.replace(SDK_OF_EXAMPLE, SDK_OF_PROJECT),
        _ => text.to_owned(),
    }
}

fn check_empty(folder: &Path) -> Result<(), BuildError> {
    match fs::read_dir(folder).map(Iterator::count) {
        Ok(0) => Ok(()),
        Ok(_) => Err(BuildError::NotEmpty {
            folder: folder.to_owned(),
        }),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(source) => Err(BuildError::file("open", folder, source)),
    }
}

fn write(folder: &Path, path: &str, text: &str) -> Result<PathBuf, BuildError> {
    let path = folder.join(path);
    let write = || {
        fs::create_dir_all(path.parent().unwrap_or(folder))?;
        fs::write(&path, text)
    };
    write().map_err(|source| BuildError::file("write", &path, source))?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Project;

    #[test]
    fn a_new_project_has_its_name_and_language() {
        for language in [Language::Rust, Language::Js, Language::Python] {
            let folder = tempfile::tempdir().unwrap();
            let paths = create(folder.path(), "greeter", language).unwrap();
            assert!(paths.iter().all(|path| path.is_file()));
            let project = Project::open(folder.path()).unwrap();
            assert_eq!(project.language, language);
            assert_eq!(project.descriptor.name, "greeter");
            let readme = fs::read_to_string(folder.path().join("README.md")).unwrap();
            assert!(readme.starts_with("# greeter\n") && !readme.contains(EXAMPLE_NAME));
        }
    }

    #[test]
    fn nothing_is_written_over() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("mine"), "precious").unwrap();
        let error = create(folder.path(), "greeter", Language::Js).unwrap_err();
        assert!(matches!(error, BuildError::NotEmpty { .. }), "{error}");
    }

    #[test]
    fn names_that_cannot_be_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["", "a/b", "../up", "a b"] {
            assert!(create(folder.path(), name, Language::Js).is_err(), "{name}");
        }
    }

    /// A new file in the SDK must not be forgotten.
    #[test]
    fn the_whole_sdk_is_copied() {
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut folders = vec![repository.join("sdk/rust/src"), repository.join("sdk/wit")];
        let mut files = 1;
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let entry = entry.unwrap();
                match entry.file_type().unwrap().is_dir() {
                    true => folders.push(entry.path()),
                    false => files += 1,
                }
            }
        }
        assert_eq!(files, RUST_SDK.len());
    }

    #[test]
    fn versions_of_tools_agree() {
        let find = |files: &[File], name| files.iter().find(|(path, _)| *path == name).unwrap().1;
        let package = find(JS, "package.json");
        for (name, version) in crate::javascript::PACKAGES {
            assert!(package.contains(&format!("\"{name}\": \"{version}\"")));
        }
        let requirements = find(PYTHON, "requirements.txt");
        assert_eq!(
            requirements.trim(),
            format!("componentize-py=={}", crate::python::TOOL_VERSION)
        );
    }
}
