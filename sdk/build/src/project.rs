use std::fs;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};

use kernel::descriptor::{Output, PluginKind, deserialize_outputs};
use kernel::{Grant, PluginId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

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
    #[serde(default)]
    id: String,
    version: String,
    language: Language,
    #[serde(default)]
    author: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    licence: String,
    #[serde(default)]
    entry_point: String,
    #[serde(default)]
    kind: PluginKind,
    /// JSON Schema, or the name of a file in the folder that holds it.
    parameters: Option<Value>,
    #[serde(default, deserialize_with = "deserialize_outputs")]
    outputs: Vec<Output>,
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
        let parameters = match &file.parameters {
            Some(parameters) => Some(schema(folder, parameters).map_err(refused)?),
            None => None,
        };
        let folder = folder
            .canonicalize()
            .map_err(|source| BuildError::file("open", folder, source))?;
        Ok(Self {
            folder,
            language: file.language,
            descriptor: Descriptor {
                name: file.name,
                id: file.id,
                version: file.version,
                author: file.author,
                description: file.description,
                entry_point: file.entry_point,
                kind: file.kind,
                parameters,
                outputs: file.outputs,
                capabilities: file.capabilities,
                language: file.language.name().to_owned(),
                licence: file.licence,
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
        if !self.id.is_empty() {
            self.id
                .parse::<PluginId>()
                .map_err(|error| error.to_string())?;
        }
        for output in &self.outputs {
            check_name("an output", &output.name)?;
        }
        for capability in &self.capabilities {
            capability
                .parse::<Grant>()
                .map_err(|error| format!("in `capabilities`: {error}"))?;
        }
        Ok(())
    }
}

/// The schema of the parameters: as it stands there, or in the file of the folder that is named.
fn schema(folder: &Path, parameters: &Value) -> Result<Value, String> {
    let schema = match parameters {
        Value::String(name) => read_schema(folder, name)?,
        written => written.clone(),
    };
    match schema.is_object() {
        true => Ok(schema),
        false => Err(
            "`parameters` is a JSON Schema, written as a table, or the name of a file in the folder that holds one"
                .to_owned(),
        ),
    }
}

fn read_schema(folder: &Path, name: &str) -> Result<Value, String> {
    let is_inside = |part| matches!(part, Component::Normal(_));
    if !Path::new(name).components().all(is_inside) {
        return Err(format!(
            "`parameters` names {name:?}, which is not in the folder"
        ));
    }
    let path = folder.join(name);
    let text = fs::read_to_string(&path)
        .map_err(|error| format!("`parameters`: cannot read {}: {error}", path.display()))?;
    serde_json::from_str(&text)
        .map_err(|error| format!("`parameters`: {} is no JSON: {error}", path.display()))
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
    fn a_project_can_say_everything_about_its_plug_in() {
        let text = r#"
            name = "filter"
            id = "shop/filter"
            version = "1.2.0"
            language = "rust"
            author = "Alice"
            description = "lets some orders through"
            licence = "MIT"
            kind = "provider"
            outputs = ["rest", { name = "out", description = "what passed" }]
            [parameters]
            type = "object"
            [parameters.properties.limit]
            type = "integer"
            minimum = 1
        "#;
        let descriptor = open(text).unwrap().descriptor;
        assert_eq!(descriptor.id(), "shop/filter");
        assert_eq!(descriptor.kind, PluginKind::Provider);
        assert_eq!(descriptor.outputs[1].description, "what passed");
        let parameters = descriptor.parameters.unwrap();
        assert_eq!(parameters["properties"]["limit"]["minimum"], 1);
    }

    #[test]
    fn a_schema_can_lie_in_a_file_of_the_folder_only() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        let project = |parameters: &str| {
            let text = format!(
                "name = \"a\"\nversion = \"1\"\nlanguage = \"js\"\nparameters = \"{parameters}\""
            );
            write(PROJECT_FILE, &text);
            Project::open(folder.path())
        };
        write("schema.json", r#"{"type":"object"}"#);
        write("list.json", "[]");
        let read = project("schema.json").unwrap().descriptor.parameters;
        assert_eq!(read.unwrap()["type"], "object");
        for name in ["../schema.json", "/etc/passwd", "none.json", "list.json"] {
            let error = project(name).unwrap_err().to_string();
            assert!(error.contains("`parameters`"), "{error}");
        }
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
            (
                "name = \"a\"\nversion = \"1\"\nlanguage = \"js\"\nid = \"a/b/c\"",
                "a/b/c",
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
