//! From a core module to a component.

use wit_component::ComponentEncoder;

use crate::BuildError;

/// The component of a module that was compiled with the SDK: the module itself says which world it
/// fits.
pub(crate) fn of_module(module: &[u8]) -> Result<Vec<u8>, BuildError> {
    ComponentEncoder::default()
        .module(module)
        .and_then(|encoder| encoder.validate(true).encode())
        .map_err(|error| BuildError::NotAWorker {
            reason: format!(
                "{error:#}; a Rust worker has one `hivewire_sdk::worker!(…)` or `router!(…)`"
            ),
        })
}
