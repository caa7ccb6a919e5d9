//! The JSON Schema of flow documents.

use schemars::generate::SchemaSettings;
use serde_json::Value;

use super::model::Document;

const TITLE: &str = "Flow document";

/// The JSON Schema of flow documents, for editors and for whoever writes documents with a program.
pub fn schema() -> Value {
    let mut schema = SchemaSettings::draft2020_12()
        .into_generator()
        .into_root_schema_for::<Document>();
    schema.insert("title".to_owned(), TITLE.into());
    schema.to_value()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_schema_takes_what_the_reader_takes() {
        let validator = jsonschema::validator_for(&schema()).unwrap();
        let stage = json!({
            "plugin": "p",
            "to": "b",
            "outputs": { "odd": ["b", "queue:q"] },
            "scale": { "min": 1, "latency": "100ms", "by": "queue-length" },
            "supervision": { "tries_max": 3 },
        });
        for (document, fits) in [
            (json!({ "flow": "f", "stages": { "a": stage } }), true),
            (json!({ "flow": "f", "delivery": "at-most-once" }), true),
            (json!({ "flow": "f", "delivery": "never" }), false),
            (json!({ "stages": {} }), false),
            (json!({ "flow": "f", "stages": { "a": {} } }), false),
            (
                json!({ "flow": "f", "stages": { "a": { "plugin": "p", "wrokers": 1 } } }),
                false,
            ),
        ] {
            assert_eq!(validator.is_valid(&document), fits, "{document}");
        }
    }
}
