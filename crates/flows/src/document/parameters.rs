//! Parameters against the JSON Schema of a plug-in.

use std::collections::HashMap;

use jsonschema::{PatternOptions, Validator};
use kernel::descriptor::Descriptor;
use serde_json::Value;

use super::plugin_reference::PluginReference;
use super::problem::{Path, Problems};

/// What a regular expression may take once it is compiled.
const PATTERN_BYTES_MAX: usize = 1 << 20;

/// The schemas of a document's plug-ins, each made ready once.
#[derive(Default)]
pub(super) struct Schemas {
    ready: HashMap<String, Result<Validator, String>>,
}

impl Schemas {
    /// Tells the first mistake, and whether there is none. There may be so many that gathering them would take all
    /// memory.
    pub fn check(
        &mut self,
        descriptor: &Descriptor,
        plugin: &PluginReference,
        parameters: &Value,
        path: &Path,
        problems: &mut Problems,
    ) -> bool {
        let Some(schema) = &descriptor.parameters else {
            return true;
        };
        let ready = self
            .ready
            .entry(plugin.to_string())
            .or_insert_with(|| compile(schema));
        let validator = match ready {
            Ok(validator) => validator,
            Err(reason) => {
                problems.error(
                    path,
                    format_args!("the schema of {plugin} is none: {reason}"),
                );
                return false;
            }
        };
        if let Err(error) = validator.validate(parameters) {
            let at = below(path, error.instance_path().as_str());
            // Without the values that stand there: one may be a secret.
            problems.error(&at, error.masked());
            return false;
        }
        true
    }
}

/// Makes a schema ready. Its regular expressions take linear time, and nothing is fetched for it.
fn compile(schema: &Value) -> Result<Validator, String> {
    let patterns = PatternOptions::regex()
        .size_limit(PATTERN_BYTES_MAX)
        .dfa_size_limit(PATTERN_BYTES_MAX);
    jsonschema::options()
        .offline()
        .with_pattern_options(patterns)
        .build(schema)
        .map_err(|error| error.to_string())
}

/// The field that a JSON pointer leads to.
fn below(path: &Path, pointer: &str) -> Path {
    let parts = pointer.split('/').skip(1);
    let unescaped = parts.map(|part| part.replace("~1", "/").replace("~0", "~"));
    unescaped.fold(path.clone(), |path, part| path.to(part))
}
