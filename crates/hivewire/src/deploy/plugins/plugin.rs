//! What a repository knows of a plug-in.

use std::fmt;
use std::str::FromStr;

use kernel::descriptor::{
    self, DESCRIPTOR_BYTES_MAX, Descriptor, DescriptorError, Output, PluginKind,
};
use kernel::{Grant, PluginId};
use schemars::JsonSchema;
use semver::Version;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::error::PluginError;
use super::schema;
use crate::deploy::built_in::ENTRY_POINT as ENTRY_POINT_BUILT_IN;
use crate::deploy::source::Component;

/// The world of workers, which is where the host enters them.
const ENTRY_POINT: &str = "hivewire:worker/worker@1.0.0";
const WORLD: &str = "hivewire:worker/worker";
const VERSION_BYTES_MAX: usize = 64;
const OUTPUT_NAME_BYTES_MAX: usize = 60;

/// One version of a plug-in. It never changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Plugin {
    /// What it is called.
    pub id: PluginId,
    /// Its version.
    pub version: Version,
    /// SHA-256 of the component in hexadecimal digits.
    pub digest: String,
    /// The length of the component.
    pub bytes: u64,
    /// Whether it has an input.
    #[serde(default)]
    pub kind: PluginKind,
    /// What it does.
    #[serde(default)]
    pub description: String,
    /// Who wrote it.
    #[serde(default)]
    pub author: String,
    /// Under which licence it may be used.
    #[serde(default)]
    pub licence: String,
    /// Where the host enters it.
    #[serde(default)]
    pub entry_point: String,
    /// What it is written in.
    #[serde(default)]
    pub language: String,
    /// Which arguments it takes, as JSON Schema; without one, any text.
    #[serde(default)]
    pub parameters: Option<Value>,
    /// The outputs that it emits to.
    #[serde(default)]
    pub outputs: Vec<Output>,
    /// What it asks to be granted.
    #[serde(default)]
    pub capabilities: Vec<String>,
    /// When it was pushed, if it was.
    #[serde(default)]
    pub pushed_at_ms: Option<u64>,
}

/// What an upload says about a component where that says nothing itself.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PluginNotes {
    /// Whether it has an input.
    pub kind: Option<PluginKind>,
    /// What it does.
    pub description: String,
    /// Who wrote it.
    pub author: String,
    /// Under which licence it may be used.
    pub licence: String,
}

impl Plugin {
    /// Reads what a component says about itself. Nothing of it runs. If something was named, it must
    /// say the same or nothing.
    pub(super) fn of(
        component: &Component,
        named: Option<(PluginId, Version)>,
        notes: &PluginNotes,
    ) -> Result<Self, PluginError> {
        let embedded = descriptor::read(&component.bytes)?;
        let is_embedded = embedded.is_some();
        let mut said = embedded.unwrap_or_default();
        notes.fill(&mut said, is_embedded);
        let (id, version) = identity(&said, named)?;
        check(&said)?;
        Ok(Self {
            id,
            version,
            digest: component.digest.clone(),
            bytes: component.bytes.len() as u64,
            kind: said.kind,
            description: said.description,
            author: said.author,
            licence: said.licence,
            entry_point: match said.entry_point.is_empty() {
                true => ENTRY_POINT.to_owned(),
                false => said.entry_point,
            },
            language: said.language,
            parameters: said.parameters,
            outputs: said.outputs,
            capabilities: said.capabilities,
            pushed_at_ms: None,
        })
    }
}

impl PluginNotes {
    fn fill(&self, said: &mut Descriptor, is_embedded: bool) {
        for (text, note) in [
            (&mut said.description, &self.description),
            (&mut said.author, &self.author),
            (&mut said.licence, &self.licence),
        ] {
            if text.is_empty() {
                text.clone_from(note);
            }
        }
        if let Some(kind) = self.kind
            && !is_embedded
        {
            said.kind = kind;
        }
    }
}

/// What it is called: as it says itself, or as it was named if it says nothing.
fn identity(
    said: &Descriptor,
    named: Option<(PluginId, Version)>,
) -> Result<(PluginId, Version), PluginError> {
    let (named_id, named_version) = named.unzip();
    let id = match said.id() {
        "" => named_id.ok_or(PluginError::NoDescriptor)?,
        text => agreed("id", text.parse()?, named_id)?,
    };
    let version = match said.version.as_str() {
        "" => named_version.ok_or(PluginError::NoDescriptor)?,
        text => agreed("version", version_of(text)?, named_version)?,
    };
    Ok((id, version))
}

fn agreed<T: PartialEq + ToString>(
    what: &'static str,
    says: T,
    named: Option<T>,
) -> Result<T, PluginError> {
    match named {
        Some(named) if named != says => Err(PluginError::Says {
            what,
            says: says.to_string(),
            named: named.to_string(),
        }),
        _ => Ok(says),
    }
}

/// A version as it is written.
pub fn version_of(text: &str) -> Result<Version, PluginError> {
    let wrong = |reason: String| PluginError::Version {
        text: text.chars().take(VERSION_BYTES_MAX).collect(),
        reason,
    };
    if text.len() > VERSION_BYTES_MAX {
        return Err(wrong(format!("it has more than {VERSION_BYTES_MAX} bytes")));
    }
    Version::parse(text).map_err(|error| wrong(error.to_string()))
}

/// What the types do not say.
fn check(said: &Descriptor) -> Result<(), PluginError> {
    let bytes = serde_json::to_vec(said)
        .map_err(DescriptorError::Json)?
        .len();
    if bytes > DESCRIPTOR_BYTES_MAX {
        return Err(DescriptorError::TooLarge { bytes }.into());
    }
    let entry_point = said.entry_point.as_str();
    let is_known = [WORLD, ENTRY_POINT_BUILT_IN]
        .iter()
        .any(|start| entry_point.starts_with(start));
    if !entry_point.is_empty() && !is_known {
        return Err(PluginError::Unfit(format!(
            "the entry point is {:?}, and that of a worker begins with {WORLD}",
            said.entry_point
        )));
    }
    for output in &said.outputs {
        if output.name.is_empty() || output.name.len() > OUTPUT_NAME_BYTES_MAX {
            return Err(PluginError::Unfit(format!(
                "an output is called {:?}: a name has 1 to {OUTPUT_NAME_BYTES_MAX} bytes",
                output.name
            )));
        }
    }
    for capability in &said.capabilities {
        let grant = capability.parse::<Grant>();
        grant.map_err(|error| PluginError::Unfit(error.to_string()))?;
    }
    if let Some(parameters) = &said.parameters {
        schema::compile(parameters)
            .map_err(|reason| PluginError::Unfit(format!("`parameters` is no schema: {reason}")))?;
    }
    Ok(())
}

/// A plug-in, as people name it: `ID@VERSION`, or `ID` for the newest version.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PluginRef {
    /// What it is called.
    pub id: PluginId,
    /// The version; the newest one if none is named.
    pub version: Option<Version>,
}

impl PluginRef {
    /// This very version.
    pub fn exact(id: &PluginId, version: &Version) -> Self {
        Self {
            id: id.clone(),
            version: Some(version.clone()),
        }
    }
}

impl FromStr for PluginRef {
    type Err = PluginError;

    fn from_str(text: &str) -> Result<Self, PluginError> {
        let (id, version) = match text.split_once('@') {
            Some((id, version)) => (id, Some(version_of(version)?)),
            None => (text, None),
        };
        let id = id.parse()?;
        Ok(Self { id, version })
    }
}

impl fmt::Display for PluginRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.version {
            Some(version) => write!(f, "{}@{version}", self.id),
            None => self.id.fmt(f),
        }
    }
}

/// A plug-in in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PluginSummary {
    /// What it is called.
    pub id: PluginId,
    /// Whether its newest version has an input.
    #[serde(default)]
    pub kind: PluginKind,
    /// What it does.
    #[serde(default)]
    pub description: String,
    /// Who wrote it.
    #[serde(default)]
    pub author: String,
    /// Under which licence it may be used.
    #[serde(default)]
    pub licence: String,
    /// Which arguments its newest version takes, as JSON Schema; without one, any text.
    #[serde(default)]
    pub parameters: Option<Value>,
    /// The outputs that its newest version emits to.
    #[serde(default)]
    pub outputs: Vec<Output>,
    /// Its newest version.
    pub newest: Version,
    /// All its versions, the newest first.
    pub versions: Vec<Version>,
    /// Where it is.
    #[serde(default)]
    pub repository: String,
}

impl PluginSummary {
    /// What there is of one plug-in; nothing if there is no version.
    pub(super) fn of(versions: &[Plugin], repository: &str) -> Option<Self> {
        let newest = newest(versions)?;
        let mut numbers: Vec<Version> = versions.iter().map(|p| p.version.clone()).collect();
        numbers.sort_by(|a, b| b.cmp(a));
        Some(Self {
            id: newest.id.clone(),
            kind: newest.kind,
            description: newest.description.clone(),
            author: newest.author.clone(),
            licence: newest.licence.clone(),
            parameters: newest.parameters.clone(),
            outputs: newest.outputs.clone(),
            newest: newest.version.clone(),
            versions: numbers,
            repository: repository.to_owned(),
        })
    }
}

/// The newest version. One that its author calls a forerunner counts only where there is no other.
pub(super) fn newest(versions: &[Plugin]) -> Option<&Plugin> {
    let rank = |plugin: &&Plugin| (plugin.version.pre.is_empty(), plugin.version.clone());
    versions.iter().max_by_key(rank)
}

/// Which plug-ins somebody wants to see.
#[derive(Clone, Debug, Default)]
pub struct PluginQuery {
    /// Those with this text in their id, description or author, however it is capitalised.
    pub text: Option<String>,
    /// Those of this kind.
    pub kind: Option<PluginKind>,
    /// Those that come after this one.
    pub after: Option<PluginId>,
    /// So many at most.
    pub limit: usize,
    /// Only those of the own repository.
    pub own: bool,
}

impl PluginQuery {
    /// Whether a plug-in is among them.
    pub(super) fn fits(&self, plugin: &PluginSummary) -> bool {
        let has = |text: &String| {
            let wanted = text.to_lowercase();
            let texts = [
                plugin.id.as_str(),
                plugin.description.as_str(),
                plugin.author.as_str(),
            ];
            texts.iter().any(|t| t.to_lowercase().contains(&wanted))
        };
        self.kind.is_none_or(|kind| kind == plugin.kind)
            && self.after.as_ref().is_none_or(|after| plugin.id > *after)
            && self.text.as_ref().is_none_or(has)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;

    use super::*;

    const EMPTY: &[u8] = b"\0asm\x0d\0\x01\0";

    pub fn component(descriptor: &Descriptor) -> Component {
        Component::new(descriptor::embed(EMPTY, descriptor).unwrap())
    }

    pub fn described(id: &str, version: &str) -> Descriptor {
        Descriptor {
            name: "worker".to_owned(),
            id: id.to_owned(),
            version: version.to_owned(),
            ..Descriptor::default()
        }
    }

    fn plugin(id: &str, version: &str) -> Plugin {
        let component = component(&described(id, version));
        Plugin::of(&component, None, &PluginNotes::default()).unwrap()
    }

    fn named(id: &str, version: &str) -> Option<(PluginId, Version)> {
        Some((id.parse().unwrap(), version.parse().unwrap()))
    }

    #[test]
    fn a_component_is_called_as_it_says_and_not_otherwise() {
        let notes = PluginNotes::default();
        let filter = component(&described("shop/filter", "1.2.0"));
        let plugin = Plugin::of(&filter, named("shop/filter", "1.2.0"), &notes).unwrap();
        assert_eq!(
            (plugin.id.as_str(), plugin.version.to_string()),
            ("shop/filter", "1.2.0".to_owned())
        );
        assert_eq!(plugin.entry_point, ENTRY_POINT);
        for other in [named("shop/other", "1.2.0"), named("shop/filter", "1.2.1")] {
            let error = Plugin::of(&filter, other, &notes).unwrap_err();
            assert!(matches!(error, PluginError::Says { .. }), "{error}");
        }
        let loose = component(&described("filter", "1"));
        let error = Plugin::of(&loose, None, &notes).unwrap_err().to_string();
        assert!(error.contains("such as 1.2.0"), "{error}");
    }

    #[test]
    fn a_component_that_says_nothing_is_called_as_it_is_named() {
        let silent = Component::new(EMPTY);
        let notes = PluginNotes {
            kind: Some(PluginKind::Provider),
            author: "Alice".to_owned(),
            ..PluginNotes::default()
        };
        let plugin = Plugin::of(&silent, named("a", "1.0.0"), &notes).unwrap();
        assert_eq!(
            (plugin.kind, plugin.author.as_str()),
            (PluginKind::Provider, "Alice")
        );
        let error = Plugin::of(&silent, None, &notes).unwrap_err();
        assert!(matches!(error, PluginError::NoDescriptor), "{error}");
    }

    #[test]
    fn what_does_not_fit_in_a_descriptor_is_named() {
        let with = |change: &dyn Fn(&mut Descriptor)| {
            let mut descriptor = described("a", "1.0.0");
            change(&mut descriptor);
            let error = Plugin::of(&component(&descriptor), None, &PluginNotes::default());
            error.unwrap_err().to_string()
        };
        let error = with(&|d| d.capabilities = vec!["all".to_owned()]);
        assert!(error.contains("send:ADDRESS"), "{error}");
        let error = with(&|d| d.parameters = Some(json!({ "type": "orders" })));
        assert!(error.contains("`parameters`"), "{error}");
        let error = with(&|d| d.outputs = vec![Output::default()]);
        assert!(error.contains("output"), "{error}");
        let error = with(&|d| d.entry_point = "main".to_owned());
        assert!(error.contains("entry point"), "{error}");
    }

    #[test]
    fn a_plug_in_is_named_with_or_without_a_version() {
        for text in ["filter", "shop/filter", "shop/filter@1.2.0-rc.1+7"] {
            assert_eq!(text.parse::<PluginRef>().unwrap().to_string(), text);
        }
        for text in ["", "@1.0.0", "filter@", "filter@1", "a/b/c@1.0.0"] {
            assert!(text.parse::<PluginRef>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_newest_version_is_no_forerunner_if_there_is_another() {
        let version = |versions: &[&str]| {
            let versions: Vec<Plugin> = versions.iter().map(|v| plugin("a", v)).collect();
            newest(&versions).map(|newest| newest.version.to_string())
        };
        let newest = version(&["1.9.0", "1.10.0", "2.0.0-rc.1"]);
        assert_eq!(newest.as_deref(), Some("1.10.0"));
        let newest = version(&["2.0.0-rc.1", "2.0.0-rc.2"]);
        assert_eq!(newest.as_deref(), Some("2.0.0-rc.2"));
        assert_eq!(version(&[]), None);
    }
}
