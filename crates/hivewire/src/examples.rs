//! Flows to begin with, each a document that is part of the binary, with the files that it reads.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;

use flows::document::{Document, Problems};
use serde_json::{Value, json};

/// A flow to begin with.
pub(crate) struct Example {
    /// What it is called; also the name of its flow.
    pub id: &'static str,
    pub title: &'static str,
    document: &'static str,
    /// What it reads, by the name that it has in the folder `files`.
    files: &'static [(&'static str, &'static str)],
    needs: fn() -> Vec<Need>,
}

/// A parameter that is most likely to be another one.
pub(crate) struct Need {
    pub stage: &'static str,
    pub parameter: &'static str,
    pub label: &'static str,
    pub default: Value,
}

macro_rules! text {
    ($path:literal) => {
        include_str!(concat!("../../../examples/", $path))
    };
}

/// All of them, in the order in which they are shown.
pub(crate) const EXAMPLES: &[Example] = &[
    Example {
        id: "site",
        title: "Crawl a site",
        document: text!("crawl/site/flow.toml"),
        files: &[],
        needs: || vec![begin(), within("domains")],
    },
    Example {
        id: "live-sensors",
        title: "Sensors, live",
        document: text!("flows/live-sensors/flow.toml"),
        files: &[],
        needs: Vec::new,
    },
    Example {
        id: "word-count",
        title: "Count words",
        document: text!("flows/word-count/flow.toml"),
        files: &[("text.txt", text!("flows/word-count/text.txt"))],
        needs: Vec::new,
    },
    Example {
        id: "sensor-alerts",
        title: "Alerts of sensors",
        document: text!("flows/sensor-alerts/flow.toml"),
        files: &[(
            "readings.jsonl",
            text!("flows/sensor-alerts/readings.jsonl"),
        )],
        needs: Vec::new,
    },
    Example {
        id: "click-sessions",
        title: "Sessions of visitors",
        document: text!("flows/click-sessions/flow.toml"),
        files: &[("clicks.jsonl", text!("flows/click-sessions/clicks.jsonl"))],
        needs: Vec::new,
    },
    Example {
        id: "order-enrichment",
        title: "Orders with their customers",
        document: text!("flows/order-enrichment/flow.toml"),
        files: &[
            ("orders.jsonl", text!("flows/order-enrichment/orders.jsonl")),
            (
                "customers.csv",
                text!("flows/order-enrichment/customers.csv"),
            ),
        ],
        needs: Vec::new,
    },
    Example {
        id: "prices",
        title: "Watch prices",
        document: text!("crawl/prices/flow.toml"),
        files: &[],
        needs: || {
            let fields = json!({ "name": { "select": "h1" }, "price": { "select": ".price", "number": true } });
            vec![
                begin(),
                within("domains"),
                Need {
                    stage: "fields",
                    parameter: "fields",
                    label: "Where name and price stand on a page",
                    default: fields,
                },
            ]
        },
    },
    Example {
        id: "broken-links",
        title: "Find broken links",
        document: text!("crawl/broken-links/flow.toml"),
        files: &[],
        needs: || vec![begin(), within("own")],
    },
];

fn begin() -> Need {
    Need {
        stage: "seed",
        parameter: "urls",
        label: "Where to begin",
        default: json!(["https://example.com/"]),
    }
}

fn within(stage: &'static str) -> Need {
    Need {
        stage,
        parameter: "domains",
        label: "Domains that belong to it",
        default: json!(["example.com"]),
    }
}

impl Example {
    pub fn find(id: &str) -> Option<&'static Self> {
        EXAMPLES.iter().find(|example| example.id == id)
    }

    pub fn document(&self) -> Result<Document, Problems> {
        Ok(Document::parse(self.document)?.document)
    }

    pub fn needs(&self) -> Vec<Need> {
        (self.needs)()
    }

    /// Puts its files into a folder, unless there are files of these names. Gives the names of those that were put there.
    pub fn put_files(&self, folder: &Path) -> io::Result<Vec<&'static str>> {
        if !self.files.is_empty() {
            std::fs::create_dir_all(folder)?;
        }
        let mut put = Vec::new();
        for (name, text) in self.files {
            let mut options = OpenOptions::new();
            match options.write(true).create_new(true).open(folder.join(name)) {
                Ok(mut file) => {
                    file.write_all(text.as_bytes())?;
                    put.push(*name);
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Ok(put)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_example_is_a_document_that_has_what_it_needs() {
        flows::plugins::add(::crawl::PLUGINS);
        for example in EXAMPLES {
            let document = example.document().unwrap();
            assert_eq!(document.flow, example.id);
            assert!(!document.description.is_empty());
            for need in example.needs() {
                let stage = &document.stages[need.stage];
                assert_eq!(
                    stage.parameters[need.parameter], need.default,
                    "{}: {}",
                    example.id, need.stage
                );
            }
        }
    }

    #[test]
    fn files_are_never_put_over_others() {
        let folder = tempfile::tempdir().unwrap();
        let example = Example::find("order-enrichment").unwrap();
        std::fs::write(folder.path().join("customers.csv"), "mine").unwrap();
        assert_eq!(example.put_files(folder.path()).unwrap(), ["orders.jsonl"]);
        assert!(example.put_files(folder.path()).unwrap().is_empty());
        let kept = std::fs::read_to_string(folder.path().join("customers.csv"));
        assert_eq!(kept.unwrap(), "mine");
    }
}
