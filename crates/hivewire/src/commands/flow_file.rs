//! Flow documents in files: read, checked, and made such that a node understands them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use flows::document::{
    BuiltIns, Catalogue, DOCUMENT_BYTES_MAX, Document, Found, Parsed, PluginReference, Problems,
    RouterChoice, Severity, check,
};
use kernel::descriptor;
use serde_json::{Value, json};

use super::output::{json_line, printable};
use crate::client::{Client, encode};
use crate::deploy::digest_of;
use crate::exit::Exit;

/// Compiling, hand-over and draining may take minutes; the node gives up before.
pub(super) const APPLY_TIMEOUT: Duration = Duration::from_secs(900);
const MESSAGE_CHARACTERS_MAX: usize = 2_000;

/// A document in a file.
pub(super) struct FlowFile {
    path: PathBuf,
    parsed: Parsed,
}

/// What is made of components that only this machine has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Uploads {
    /// They are sent to the node.
    Send,
    /// Their digests are named.
    Name,
}

impl FlowFile {
    /// Reads a file. What is wrong with it is told on standard error; then there is no document.
    pub fn read(path: &Path, as_json: bool) -> anyhow::Result<Option<Self>> {
        let text = read_text(path)?;
        let parsed = match path
            .extension()
            .is_some_and(|extension| extension == "json")
        {
            true => Document::parse_json(text.as_bytes()),
            false => Document::parse(&text),
        };
        match parsed {
            Ok(parsed) => Ok(Some(Self {
                path: path.to_path_buf(),
                parsed,
            })),
            Err(problems) => {
                report(path, &problems, as_json)?;
                Ok(None)
            }
        }
    }

    pub fn document(&self) -> &Document {
        &self.parsed.document
    }

    /// What is wrong, as far as this machine can tell.
    pub fn check_here(&self) -> Problems {
        let folder = self.folder();
        let problems = check(self.document(), &Here { folder });
        self.parsed.locate(problems)
    }

    /// What is wrong, as far as a node can tell.
    pub fn check_there(&self, client: &Client) -> anyhow::Result<Problems> {
        let document = self.for_node(client, Uploads::Send)?;
        let answer = client.post("/api/v1/document-check", &json!(document))?;
        let problems = serde_json::from_value(answer["problems"].clone());
        let problems =
            problems.context("the node's answer cannot be read: is it of another version?")?;
        Ok(self.parsed.locate(problems))
    }

    /// Checks on this machine and at the node, and tells what is wrong; whether it could be applied.
    pub fn is_sound(&self, client: &Client, as_json: bool) -> anyhow::Result<bool> {
        let problems = self.check_there(client)?;
        if problems.has_errors() {
            report(&self.path, &problems, as_json)?;
            return Ok(false);
        }
        if !as_json {
            print_problems(&self.path, &problems);
        }
        Ok(true)
    }

    /// The document with components as the node finds them.
    pub fn for_node(&self, client: &Client, uploads: Uploads) -> anyhow::Result<Document> {
        let mut document = self.document().clone();
        for stage in document.stages.values_mut() {
            stage.plugin = self.place(client, &stage.plugin, uploads)?;
            if let Some(RouterChoice::Own(own)) = &stage.router {
                stage.router = Some(RouterChoice::Own(self.place(client, own, uploads)?));
            }
        }
        Ok(document)
    }

    fn place(
        &self,
        client: &Client,
        plugin: &PluginReference,
        uploads: Uploads,
    ) -> anyhow::Result<PluginReference> {
        let PluginReference::File(path) = plugin else {
            return Ok(plugin.clone());
        };
        let path = std::path::absolute(self.folder().join(path))?;
        if client.is_local() {
            let path = path.into_os_string().into_string();
            let path = path.map_err(|path| {
                anyhow::anyhow!(
                    "{} is not UTF-8: give the file another name",
                    path.display()
                )
            })?;
            return Ok(PluginReference::File(path));
        }
        let bytes = std::fs::read(&path);
        let bytes = bytes.with_context(|| format!("cannot read {}", path.display()))?;
        if uploads == Uploads::Send {
            client.put("/api/v1/components", &bytes, APPLY_TIMEOUT)?;
        }
        Ok(PluginReference::Upload(digest_of(&bytes)))
    }

    fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new(""))
    }
}

/// Where the document of a flow is.
pub(super) fn document_path(flow: &str) -> String {
    format!("/api/v1/documents/{}", encode(flow))
}

/// The steps of an answer, one line each.
pub(super) fn sentences(answer: &Value) -> Vec<String> {
    let steps = answer["steps"].as_array().into_iter().flatten();
    let sentence = |step: &Value| {
        let text = step["sentence"].as_str().unwrap_or_default();
        printable(text, MESSAGE_CHARACTERS_MAX)
    };
    steps.map(sentence).collect()
}

fn read_text(path: &Path) -> anyhow::Result<String> {
    let shown = path.display();
    let length = std::fs::metadata(path)
        .with_context(|| format!("cannot read {shown}"))?
        .len();
    anyhow::ensure!(
        length <= DOCUMENT_BYTES_MAX as u64,
        "{shown} has {length} bytes, and a document has at most {DOCUMENT_BYTES_MAX}: make several flows of it"
    );
    std::fs::read_to_string(path).with_context(|| format!("cannot read {shown}"))
}

/// Tells what is wrong: as JSON on standard output, or as lines on standard error.
pub(super) fn report(path: &Path, problems: &Problems, as_json: bool) -> anyhow::Result<Exit> {
    let is_sound = !problems.has_errors();
    match as_json {
        true => json_line(&json!({ "sound": is_sound, "problems": problems }))?,
        false => print_problems(path, problems),
    }
    Ok(match is_sound {
        true => Exit::Done,
        false => Exit::Failed,
    })
}

fn print_problems(path: &Path, problems: &Problems) {
    for problem in problems {
        let text = printable(&problem.to_string(), MESSAGE_CHARACTERS_MAX);
        let separator = match problem.line {
            Some(_) => "",
            None => " ",
        };
        eprintln!("{}:{separator}{text}", path.display());
    }
}

/// How many problems of each kind there are, for people.
pub(super) fn warnings_in(problems: &Problems) -> usize {
    let is_warning = |severity| severity == Severity::Warning;
    problems
        .iter()
        .filter(|problem| is_warning(problem.severity))
        .count()
}

/// What this machine knows of plug-ins.
struct Here<'a> {
    folder: &'a Path,
}

impl Catalogue for Here<'_> {
    fn find(&self, plugin: &PluginReference) -> Found {
        let PluginReference::File(path) = plugin else {
            return BuiltIns.find(plugin);
        };
        let path = self.folder.join(path);
        match std::fs::read(&path) {
            Err(error) => Found::Nothing(format!("cannot read {}: {error}", path.display())),
            Ok(bytes) => match descriptor::read(&bytes) {
                Ok(descriptor) => Found::Plugin(Box::new(descriptor.unwrap_or_default())),
                Err(error) => Found::Nothing(format!("{}: {error}", path.display())),
            },
        }
    }

    fn ids(&self) -> Vec<String> {
        BuiltIns.ids()
    }

    fn mistake(&self, plugin: &PluginReference, parameters: &Value) -> Option<(String, String)> {
        BuiltIns.mistake(plugin, parameters)
    }
}
