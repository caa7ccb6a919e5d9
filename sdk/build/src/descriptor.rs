//! What a component says about itself, in a custom section of its own.

use serde::{Deserialize, Serialize};
use wasm_encoder::{ComponentSection, CustomSection};
use wasmparser::{Parser, Payload};

/// The name of the section. It stands once, at the top level of a component; what it holds is a
/// [`Descriptor`] as JSON.
pub const SECTION: &str = "hivewire-descriptor";

/// What a component says about itself. Later versions may add fields; readers pass over those that
/// they do not know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Descriptor {
    /// The name of the plug-in.
    pub name: String,
    /// Its version, as its author numbers it.
    pub version: String,
    /// The language it was written in.
    pub language: String,
    /// The outputs that it emits to.
    #[serde(default)]
    pub outputs: Vec<String>,
    /// What it asks to be granted, such as `send:queue:audit`.
    #[serde(default)]
    pub capabilities: Vec<String>,
}

/// Why a descriptor was not read or put in.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DescriptorError {
    /// The file is damaged or something else.
    #[error("this is no WebAssembly component: {0}")]
    NoComponent(String),
    /// The section holds something else.
    #[error("the section {SECTION} of the component does not fit: {0}")]
    Content(#[from] serde_json::Error),
    /// It has one already.
    #[error("the component has a section {SECTION} already: build it anew")]
    Present,
}

/// The descriptor of a component, if it has one.
pub fn read(component: &[u8]) -> Result<Option<Descriptor>, DescriptorError> {
    // Modules and components within have custom sections of their own.
    let mut depth = 0;
    for payload in Parser::new(0).parse_all(component) {
        let payload = payload.map_err(|error| DescriptorError::NoComponent(error.to_string()))?;
        match payload {
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
            Payload::End(_) if depth > 0 => depth -= 1,
            Payload::CustomSection(section) if depth == 0 && section.name() == SECTION => {
                return Ok(Some(serde_json::from_slice(section.data())?));
            }
            _ => {}
        }
    }
    Ok(None)
}

/// The component with a descriptor added. It must not have one yet.
pub fn embed(mut component: Vec<u8>, descriptor: &Descriptor) -> Result<Vec<u8>, DescriptorError> {
    if !Parser::is_component(&component) {
        return Err(DescriptorError::NoComponent(
            "it does not begin like one".into(),
        ));
    }
    if read(&component)?.is_some() {
        return Err(DescriptorError::Present);
    }
    let section = CustomSection {
        name: SECTION.into(),
        data: serde_json::to_vec(descriptor)?.into(),
    };
    section.append_to_component(&mut component);
    Ok(component)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn descriptor() -> Descriptor {
        Descriptor {
            name: "echo".into(),
            version: "1.2.3".into(),
            language: "rust".into(),
            outputs: vec!["out".into()],
            capabilities: vec!["send:queue:audit".into()],
        }
    }

    #[test]
    fn what_is_put_in_is_read_back() {
        let component = wasm_encoder::Component::new().finish();
        assert_eq!(read(&component).unwrap(), None);
        let component = embed(component, &descriptor()).unwrap();
        assert_eq!(read(&component).unwrap(), Some(descriptor()));
        assert!(matches!(
            embed(component, &descriptor()),
            Err(DescriptorError::Present)
        ));
    }

    #[test]
    fn sections_within_do_not_count() {
        let inner = embed(wasm_encoder::Component::new().finish(), &descriptor()).unwrap();
        let mut outer = wasm_encoder::Component::new();
        outer.section(&wasm_encoder::RawSection {
            id: wasm_encoder::ComponentSectionId::Component.into(),
            data: &inner,
        });
        assert_eq!(read(&outer.finish()).unwrap(), None);
    }

    #[test]
    fn other_files_are_refused() {
        for file in [&b"no wasm"[..], b"", b"\0asm\x01\0\0\0"] {
            assert!(matches!(
                embed(file.to_vec(), &descriptor()),
                Err(DescriptorError::NoComponent(_))
            ));
        }
    }

    #[test]
    fn later_fields_are_passed_over() {
        let text = r#"{"name":"a","version":"1","language":"js","later":true}"#;
        let descriptor: Descriptor = serde_json::from_str(text).unwrap();
        assert!(descriptor.outputs.is_empty());
    }
}
