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

use serde::{Deserialize, Serialize};

/// The name of the custom section.
pub const SECTION: &str = "hivewire-descriptor";

/// The most bytes that a descriptor may take.
pub const DESCRIPTOR_BYTES_MAX: usize = 64 << 10;

const HEADER_BYTES: usize = 8;
const CUSTOM_SECTION: u8 = 0;

/// What a component says about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Descriptor {
    /// The name of the plug-in.
    pub name: String,
    /// Its version, as its author numbers it.
    pub version: String,
    /// The outputs that it emits to; if there are none, it may emit to any that the stage has.
    pub outputs: Vec<String>,
    /// What it asks to be granted, as [`crate::Grant`] writes it.
    pub capabilities: Vec<String>,
    /// What it is written in.
    pub language: String,
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
            outputs: vec!["out".to_owned()],
            capabilities: vec!["send:queue:*".to_owned()],
            language: "rust".to_owned(),
        }
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
