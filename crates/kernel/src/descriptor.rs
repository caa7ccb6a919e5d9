//! What a component says about itself: a custom section with JSON in it.
//!
//! Whoever builds components writes it, whoever runs them reads it.
//!
//! ```
//! use kernel::descriptor::{self, Descriptor};
//!
//! let component = b"\0asm\x0d\0\x01\0".to_vec();
//! let described = Descriptor { name: "counter".into(), version: "1.2.0".into(), ..Descriptor::default() };
//! let component = descriptor::embed(&component, &described)?;
//! assert_eq!(descriptor::read(&component)?, Some(described));
//! # Ok::<(), descriptor::DescriptorError>(())
//! ```

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// The name of the custom section.
pub const SECTION: &str = "hivewire-descriptor";

/// The most bytes that a descriptor may take.
pub const DESCRIPTOR_BYTES_MAX: usize = 64 << 10;

const HEADER_BYTES: usize = 8;
const CUSTOM_SECTION: u8 = 0;

/// What a component says about itself. What is empty is left out of the JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Descriptor {
    /// The name of the worker.
    pub name: String,
    /// The id of the plug-in, as [`crate::PluginId`] writes it; if it is empty, the name is the id.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// Its version, as its author numbers it.
    pub version: String,
    /// Who wrote it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub author: String,
    /// What it does.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// The world that it fits; if it is empty, that of workers.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub entry_point: String,
    /// Whether it has an input.
    #[serde(skip_serializing_if = "PluginKind::is_processor")]
    pub kind: PluginKind,
    /// Which arguments it takes, as JSON Schema; without one, any text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameters: Option<Value>,
    /// The outputs that it emits to; if there are none, it may emit to any that the stage has.
    #[serde(
        serialize_with = "serialize_outputs",
        deserialize_with = "deserialize_outputs"
    )]
    pub outputs: Vec<Output>,
    /// What it asks to be granted, as [`crate::Grant`] writes it.
    pub capabilities: Vec<String>,
    /// What it is written in.
    pub language: String,
    /// Under which licence it may be used, such as `MIT`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub licence: String,
}

impl Descriptor {
    /// The id of the plug-in, unchecked.
    pub fn id(&self) -> &str {
        match self.id.is_empty() {
            true => &self.name,
            false => &self.id,
        }
    }
}

/// Whether a worker has an input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PluginKind {
    /// It has none: it begins by itself.
    Provider,
    /// It handles messages.
    #[default]
    Processor,
}

impl PluginKind {
    /// As it is written everywhere.
    pub fn name(self) -> &'static str {
        match self {
            Self::Provider => "provider",
            Self::Processor => "processor",
        }
    }

    fn is_processor(&self) -> bool {
        *self == Self::Processor
    }
}

impl fmt::Display for PluginKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for PluginKind {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "provider" => Ok(Self::Provider),
            "processor" => Ok(Self::Processor),
            _ => Err("choose provider or processor"),
        }
    }
}

/// An output of a worker.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Output {
    /// Its name.
    pub name: String,
    /// What comes out there.
    pub description: String,
}

impl From<&str> for Output {
    fn from(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            description: String::new(),
        }
    }
}

/// An output as people write it: only its name, if there is nothing to say about it.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Written {
    Name(String),
    Described(Output),
}

fn serialize_outputs<S: Serializer>(outputs: &[Output], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(
        outputs
            .iter()
            .map(|output| match output.description.is_empty() {
                true => Written::Name(output.name.clone()),
                false => Written::Described(output.clone()),
            }),
    )
}

/// Reads outputs, each of which is a name or an object with `name` and `description`.
pub fn deserialize_outputs<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Output>, D::Error> {
    let written = Vec::<Written>::deserialize(from)?;
    let output = |written| match written {
        Written::Name(name) => Output::from(name.as_str()),
        Written::Described(output) => output,
    };
    Ok(written.into_iter().map(output).collect())
}

/// Why a descriptor cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum DescriptorError {
    /// The bytes are not WebAssembly.
    #[error("this is not WebAssembly: it does not begin with \\0asm")]
    NotWebAssembly,
    /// A section ends beyond the end of the file.
    #[error("the file is cut off or damaged at byte {offset}")]
    Damaged {
        /// Where reading failed.
        offset: usize,
    },
    /// The JSON is not what it should be.
    #[error("the descriptor in section {SECTION} is wrong: {0}; build the component anew")]
    Json(#[from] serde_json::Error),
    /// It is too large.
    #[error("a descriptor has at most {DESCRIPTOR_BYTES_MAX} bytes, this one has {bytes}")]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
}

/// The descriptor in a component, if there is one. The last one counts.
pub fn read(component: &[u8]) -> Result<Option<Descriptor>, DescriptorError> {
    let mut found = None;
    for section in sections(component)? {
        if let Some(json) = descriptor_json(component, &section?) {
            found = Some(json);
        }
    }
    let Some(json) = found else {
        return Ok(None);
    };
    check_size(json.len())?;
    Ok(Some(serde_json::from_slice(json)?))
}

/// The component with this descriptor in place of any that it had.
pub fn embed(component: &[u8], descriptor: &Descriptor) -> Result<Vec<u8>, DescriptorError> {
    let json = serde_json::to_vec(descriptor)?;
    check_size(json.len())?;
    let mut out = component
        .get(..HEADER_BYTES)
        .ok_or(DescriptorError::NotWebAssembly)?
        .to_vec();
    for section in sections(component)? {
        let section = section?;
        if descriptor_json(component, &section).is_none() {
            out.extend_from_slice(&component[section.start..section.end]);
        }
    }
    out.push(CUSTOM_SECTION);
    let name_and_json = 1 + SECTION.len() + json.len();
    push_leb(&mut out, name_and_json as u32);
    push_leb(&mut out, SECTION.len() as u32);
    out.extend_from_slice(SECTION.as_bytes());
    out.extend_from_slice(&json);
    Ok(out)
}

fn check_size(bytes: usize) -> Result<(), DescriptorError> {
    match bytes > DESCRIPTOR_BYTES_MAX {
        true => Err(DescriptorError::TooLarge { bytes }),
        false => Ok(()),
    }
}

/// One section of the outermost level.
struct Section {
    id: u8,
    start: usize,
    content: usize,
    end: usize,
}

/// The sections of the outermost level, in order.
fn sections(
    component: &[u8],
) -> Result<impl Iterator<Item = Result<Section, DescriptorError>> + '_, DescriptorError> {
    if component.len() < HEADER_BYTES || !component.starts_with(b"\0asm") {
        return Err(DescriptorError::NotWebAssembly);
    }
    let mut at = HEADER_BYTES;
    Ok(std::iter::from_fn(move || {
        if at >= component.len() {
            return None;
        }
        let section = section_at(component, at).ok_or(DescriptorError::Damaged { offset: at });
        at = section
            .as_ref()
            .map_or(component.len(), |section| section.end);
        Some(section)
    }))
}

fn section_at(component: &[u8], start: usize) -> Option<Section> {
    let (length, length_bytes) = read_leb(component.get(start + 1..)?)?;
    let content = start + 1 + length_bytes;
    let end = content.checked_add(length as usize)?;
    (end <= component.len()).then_some(Section {
        id: component[start],
        start,
        content,
        end,
    })
}

/// The JSON in this section, if it is the descriptor's.
fn descriptor_json<'a>(component: &'a [u8], section: &Section) -> Option<&'a [u8]> {
    if section.id != CUSTOM_SECTION {
        return None;
    }
    let content = &component[section.content..section.end];
    let (name_bytes, length_bytes) = read_leb(content)?;
    content[length_bytes..]
        .strip_prefix(SECTION.as_bytes())
        .filter(|_| name_bytes as usize == SECTION.len())
}

/// A number in LEB128 and how many bytes it took.
fn read_leb(bytes: &[u8]) -> Option<(u32, usize)> {
    let mut value = 0u32;
    for (index, byte) in bytes.iter().take(5).enumerate() {
        value |= u32::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Some((value, index + 1));
        }
    }
    None
}

fn push_leb(out: &mut Vec<u8>, mut value: u32) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    const EMPTY: &[u8] = b"\0asm\x0d\0\x01\0";

    fn described(name: &str) -> Descriptor {
        Descriptor {
            name: name.to_owned(),
            version: "1.0.0".to_owned(),
            outputs: vec!["out".into()],
            capabilities: vec!["send:queue:*".to_owned()],
            language: "rust".to_owned(),
            ..Descriptor::default()
        }
    }

    #[test]
    fn what_older_programs_wrote_is_read_and_written_as_before() {
        let json =
            r#"{"name":"a","version":"1","outputs":["out"],"capabilities":[],"language":"js"}"#;
        let read: Descriptor = serde_json::from_str(json).unwrap();
        assert_eq!(
            (read.id(), read.kind, &read.parameters),
            ("a", PluginKind::Processor, &None)
        );
        assert_eq!(serde_json::to_string(&read).unwrap(), json);
    }

    #[test]
    fn everything_it_can_say_comes_back() {
        let whole = Descriptor {
            id: "shop/a".to_owned(),
            author: "Alice".to_owned(),
            description: "filters".to_owned(),
            entry_point: "hivewire:worker/worker@1.0.0".to_owned(),
            kind: PluginKind::Provider,
            parameters: Some(serde_json::json!({ "type": "object" })),
            outputs: vec![Output {
                name: "out".to_owned(),
                description: "what passed".to_owned(),
            }],
            licence: "MIT".to_owned(),
            ..described("a")
        };
        let component = embed(EMPTY, &whole).unwrap();
        let back = read(&component).unwrap().unwrap();
        assert_eq!((back.id(), &back), ("shop/a", &whole));
    }

    #[test]
    fn a_descriptor_replaces_the_former_one_and_leaves_the_rest() {
        let mut component = EMPTY.to_vec();
        component.extend_from_slice(b"\0\x06\x04other");
        assert_eq!(read(&component).unwrap(), None);
        let once = embed(&component, &described("a")).unwrap();
        let twice = embed(&once, &described(&"b".repeat(300))).unwrap();
        assert_eq!(read(&twice).unwrap().unwrap(), described(&"b".repeat(300)));
        assert!(twice.starts_with(&component));
        assert_eq!(embed(&twice, &described("a")).unwrap(), once);
    }

    #[test]
    fn what_is_damaged_is_refused_at_every_cut() {
        let whole = embed(EMPTY, &described("a")).unwrap();
        for cut in 0..whole.len() {
            let read = read(&whole[..cut]);
            assert!(read.is_err() || cut == EMPTY.len(), "cut at {cut}");
        }
    }

    #[test]
    fn a_huge_descriptor_is_refused() {
        let huge = described(&"x".repeat(DESCRIPTOR_BYTES_MAX));
        assert!(matches!(
            embed(EMPTY, &huge),
            Err(DescriptorError::TooLarge { .. })
        ));
    }
}
