//! Built-in plug-ins as components: an empty one whose descriptor names the code. So they are kept, shared among nodes
//! and loaded again after a restart as every component is.

use std::sync::Arc;

use flows::plugins::{BuiltIn, Environment, find};
use kernel::descriptor::{self, DESCRIPTOR_BYTES_MAX};
use kernel::worker::Code;

use super::DeployError;
use super::source::{Component, SourceError};

/// A component without anything in it.
const EMPTY_COMPONENT: &[u8] = b"\0asm\x0d\0\x01\0";
/// How the entry point of a built-in plug-in begins; its id follows.
pub(super) const ENTRY_POINT: &str = "built-in:";

/// The component that stands for a built-in plug-in.
pub(super) fn component(id: &str) -> Result<Component, SourceError> {
    let unknown = |reason| SourceError::Form {
        text: format!("builtin:{id}"),
        reason,
    };
    let built_in = find(id).ok_or_else(|| unknown("there is no such built-in plug-in"))?;
    component_of(built_in).ok_or_else(|| unknown("its descriptor is too large, which is a bug"))
}

/// The component that stands for this built-in plug-in.
pub(super) fn component_of(built_in: &BuiltIn) -> Option<Component> {
    let mut descriptor = built_in.descriptor();
    descriptor.entry_point = format!("{ENTRY_POINT}{}", built_in.id());
    let bytes = descriptor::embed(EMPTY_COMPONENT, &descriptor).ok()?;
    Some(Component::new(bytes))
}

/// The built-in plug-in that a component stands for, if it does.
pub(super) fn id_of(bytes: &[u8]) -> Option<String> {
    // No other is so small, and large ones are not read through.
    if bytes.len() > 2 * DESCRIPTOR_BYTES_MAX {
        return None;
    }
    let descriptor = descriptor::read(bytes).ok()??;
    let id = descriptor.entry_point.strip_prefix(ENTRY_POINT)?;
    Some(id.to_owned())
}

/// The code of a built-in plug-in.
pub(super) fn code(id: &str, environment: &Environment) -> Result<Arc<dyn Code>, DeployError> {
    match find(id) {
        Some(built_in) => Ok(built_in.code(environment)),
        None => Err(DeployError::Request(format!(
            "this version of Hivewire has no built-in plug-in {id:?}: bring all nodes to the same version"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_plugin_can_be_a_component() {
        for built_in in flows::plugins::all() {
            let component = component(built_in.id()).unwrap();
            assert_eq!(id_of(&component.bytes).as_deref(), Some(built_in.id()));
            let code = code(built_in.id(), &Environment::default()).unwrap();
            assert_eq!(code.info().kind, built_in.kind());
        }
        assert!(component("no-such").is_err());
        assert_eq!(id_of(b"\0asm\x0d\0\x01\0"), None);
        assert_eq!(id_of(b"something else"), None);
    }
}
