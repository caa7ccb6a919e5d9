//! Parameters against the JSON Schema of a plug-in.

use std::collections::HashMap;

use jsonschema::{PatternOptions, Validator};
use kernel::descriptor::Descriptor;
use serde_json::Value;

use super::model::Stage;
use super::problem::{Path, Problems};

/// What a regular expression may take once it is compiled.
const PATTERN_BYTES_MAX: usize = 1 << 20;

/// The schemas of a document's plug-ins, each made ready once.
#[derive(Default)]
pub(super) struct Schemas {
    ready: HashMap<String, Result<Validator, String>>,
}

impl Schemas {
    /// Tells the first mistake. There may be so many that gathering them would take all memory.
    pub fn check(
        &mut self,
        descriptor: &Descriptor,
        stage: &Stage,
        path: &Path,
        problems: &mut Problems,
    ) {
        let Some(schema) = &descriptor.parameters else {
            return;
        };
        let plugin = stage.plugin.to_string();
        let ready = self.ready.entry(plugin).or_insert_with(|| compile(schema));
        let validator = match ready {
            Ok(validator) => validator,
            Err(reason) => {
                let message = format_args!("the schema of {} is none: {reason}", stage.plugin);
                return problems.error(path, message);
            }
        };
        // Whoever says nothing says that all is as usual.
        let nothing = Value::Object(Default::default());
        let parameters = match &stage.parameters {
            Value::Null => &nothing,
            parameters => parameters,
        };
        if let Err(error) = validator.validate(parameters) {
            let at = below(path, error.instance_path().as_str());
            // Without the values that stand there: one may be a secret.
            problems.error(&at, error.masked());
        }
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
