//! Parameters against the JSON Schema of a plug-in.

use std::collections::HashMap;

use jsonschema::error::ValidationErrorKind;
use jsonschema::{PatternOptions, ValidationError, Validator};
use kernel::descriptor::Descriptor;
use serde_json::Value;

use super::plugin_reference::PluginReference;
use super::problem::Path;
use super::suggest::hint;

/// What a regular expression may take once it is compiled.
const PATTERN_BYTES_MAX: usize = 1 << 20;

/// The schemas of a document's plug-ins, each made ready once.
#[derive(Default)]
pub(super) struct Schemas {
    ready: HashMap<String, Result<Validator, String>>,
}

/// What is wrong with parameters.
pub(super) struct Mistake {
    pub at: Path,
    /// Whether the name of the field is meant, and not what stands there.
    pub at_name: bool,
    pub message: String,
    /// Nobody could say it better.
    pub is_plain: bool,
}

impl Schemas {
    /// The first mistake, if there is one. There may be so many that gathering them would take all memory.
    pub fn check(
        &mut self,
        descriptor: &Descriptor,
        plugin: &PluginReference,
        parameters: &Value,
        path: &Path,
    ) -> Option<Mistake> {
        let schema = descriptor.parameters.as_ref()?;
        let ready = self
            .ready
            .entry(plugin.to_string())
            .or_insert_with(|| compile(schema));
        match ready {
            Ok(validator) => {
                let error = validator.validate(parameters).err()?;
                Some(mistake(&error, schema, path))
            }
            Err(reason) => Some(Mistake {
                at: path.clone(),
                at_name: false,
                message: format!("the schema of {plugin} is none: {reason}"),
                is_plain: true,
            }),
        }
    }
}

fn mistake(error: &ValidationError<'_>, schema: &Value, path: &Path) -> Mistake {
    let at = below(path, error.instance_path().as_str());
    let is_top = error.instance_path().as_str().is_empty();
    match error.kind() {
        ValidationErrorKind::AdditionalProperties { unexpected } if !unexpected.is_empty() => {
            let name = &unexpected[0];
            let known = schema["properties"].as_object().filter(|_| is_top);
            let known = known.into_iter().flat_map(|known| known.keys());
            let hint = hint(name, known.map(String::as_str));
            Mistake {
                at: at.to(name),
                at_name: true,
                message: format!("there is no parameter {name:?} here{hint}"),
                is_plain: true,
            }
        }
        ValidationErrorKind::Required { property } => Mistake {
            at,
            at_name: true,
            message: format!("{} is missing here", property.as_str().unwrap_or_default()),
            is_plain: true,
        },
        // Without the values that stand there: one may be a secret.
        _ => Mistake {
            at,
            at_name: false,
            message: error.masked().to_string(),
            is_plain: false,
        },
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
