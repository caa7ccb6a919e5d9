use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use kernel::Grant;
use serde::{Deserialize, Serialize};

use crate::{BuildError, Descriptor};

/// The file that describes a worker project. It is not called like the configuration of a node,
/// because commands look for that in the folder they are called in.
pub const PROJECT_FILE: &str = "worker.toml";

const NAME_BYTES_MAX: usize = 60;

/// The languages that workers are written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    /// Rust, with `hivewire-sdk`.
    Rust,
    /// JavaScript, through componentize-js.
    Js,
    /// Python, through componentize-py.
    Python,
}

/// A worker project: a folder with a [`PROJECT_FILE`].
#[derive(Clone, Debug)]
pub struct Project {
    /// The folder.
    pub folder: PathBuf,
    /// Its language.
    pub language: Language,
    /// What the component will say about itself.
    pub descriptor: Descriptor,
}

/// What stands in the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProjectFile {
    name: String,
    version: String,
    language: Language,
    #[serde(default)]
    outputs: Vec<String>,
    #[serde(default)]
    capabilities: Vec<String>,
}

impl Language {
    /// As it is written in files and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rust => "rust",
            Self::Js => "js",
            Self::Python => "python",
        }
    }
}

impl Project {
    /// Reads what the folder says about itself.
    pub fn open(folder: &Path) -> Result<Self, BuildError> {
        let path = folder.join(PROJECT_FILE);
        let text = fs::read_to_string(&path).map_err(|source| match source.kind() {
            ErrorKind::NotFound => BuildError::NoProject {
                folder: folder.to_owned(),
            },
            _ => BuildError::file("read", &path, source),
        })?;
        let refused = |reason| BuildError::Project {
            path: path.clone(),
            reason,
        };
        let file: ProjectFile =
            toml::from_str(&text).map_err(|error| refused(error.to_string()))?;
        file.check().map_err(refused)?;
        let folder = folder
            .canonicalize()
            .map_err(|source| BuildError::file("open", folder, source))?;
        Ok(Self {
            folder,
            language: file.language,
            descriptor: Descriptor {
                name: file.name,
                version: file.version,
                language: file.language.name().to_owned(),
                outputs: file.outputs,
                capabilities: file.capabilities,
            },
        })
    }

    /// Fails if the project lacks a file.
    pub(crate) fn require(&self, name: &str) -> Result<(), BuildError> {
        match self.folder.join(name).is_file() {
            true => Ok(()),
            false => Err(BuildError::Missing {
                what: format!("the file {name} with the code of the worker"),
                remedy: format!("write it in {}", self.folder.display()),
            }),
        }
    }

    /// The folder for what is built; it is made if it is not there.
    pub(crate) fn build_folder(&self) -> Result<PathBuf, BuildError> {
        let folder = self.folder.join("build");
        fs::create_dir_all(&folder).map_err(|source| BuildError::file("make", &folder, source))?;
        Ok(folder)
    }
}

impl ProjectFile {
    /// What the types do not say.
    fn check(&self) -> Result<(), String> {
        check_name("name", &self.name)?;
        for output in &self.outputs {
            check_name("an output", output)?;
        }
        for capability in &self.capabilities {
            capability
                .parse::<Grant>()
                .map_err(|error| format!("in `capabilities`: {error}"))?;
        }
        Ok(())
    }
}

/// Whether a project can have this name; if not, the text says why.
pub(crate) fn check_name(what: &str, name: &str) -> Result<(), String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    match !name.is_empty() && name.len() <= NAME_BYTES_MAX && name.chars().all(fits) {
        true => Ok(()),
        false => Err(format!(
            "{what} cannot be {name:?}: use 1 to {NAME_BYTES_MAX} letters, digits, - and _"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(text: &str) -> Result<Project, BuildError> {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(PROJECT_FILE), text).unwrap();
        Project::open(folder.path())
    }

    #[test]
    fn a_project_says_what_it_is() {
        let text = "name = \"a\"\nversion = \"1\"\nlanguage = \"js\"\ncapabilities = [\"send:queue:audit\"]";
        let project = open(text).unwrap();
        assert_eq!(project.language, Language::Js);
        assert_eq!(project.descriptor.capabilities, ["send:queue:audit"]);
        assert_eq!(project.descriptor.language, "js");
    }

    #[test]
    fn what_does_not_fit_is_named() {
        for (text, named) in [
            ("name = \"a\"", "version"),
            ("name = \"a\"\nversion = \"1\"\nlanguage = \"go\"", "rust"),
            ("name = \"a b\"\nversion = \"1\"\nlanguage = \"js\"", "a b"),
            (
                "name = \"a\"\nversion = \"1\"\nlanguage = \"js\"\noutput = []",
                "output",
            ),
            (
                "name = \"a\"\nversion = \"1\"\nlanguage = \"js\"\ncapabilities = [\"all\"]",
                "send:ADDRESS",
            ),
        ] {
            let error = open(text).unwrap_err().to_string();
            assert!(error.contains(named), "{error}");
            assert!(error.contains(PROJECT_FILE), "{error}");
        }
    }

    #[test]
    fn a_folder_without_project_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let error = Project::open(folder.path()).unwrap_err().to_string();
        assert!(error.contains("hivewire new worker"), "{error}");
    }
}
