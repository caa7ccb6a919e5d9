//! The rules of the layers, checked: who may depend on whom, what a layer must not know of, and that the
//! map in `docs/ARCHITECTURE.md` leads to places that exist.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// What each crate may use of ours, from the bottom up. Tests may use anything.
const LAYERS: &[(&str, &[&str])] = &[
    ("hivewire-kernel", &[]),
    ("hivewire-wire", &[]),
    ("hivewire-journal", &[]),
    ("hivewire-broker", &["hivewire-journal", "hivewire-kernel"]),
    (
        "hivewire-listeners",
        &["hivewire-broker", "hivewire-kernel", "hivewire-wire"],
    ),
    (
        "hivewire-bus",
        &[
            "hivewire-broker",
            "hivewire-journal",
            "hivewire-kernel",
            "hivewire-wire",
        ],
    ),
    ("hivewire-runtime", &["hivewire-bus", "hivewire-kernel"]),
    (
        "hivewire-control",
        &["hivewire-bus", "hivewire-kernel", "hivewire-runtime"],
    ),
    (
        "hivewire-flows",
        &["hivewire-bus", "hivewire-kernel", "hivewire-runtime"],
    ),
    (
        "hivewire-crawl",
        &["hivewire-bus", "hivewire-flows", "hivewire-kernel"],
    ),
    (
        "hivewire-web",
        &["hivewire-bus", "hivewire-kernel", "hivewire-runtime"],
    ),
    ("hivewire-wasm", &["hivewire-kernel"]),
    // For those who write workers; they know nothing of what runs them.
    ("hivewire-build", &["hivewire-kernel"]),
    ("hivewire-sdk", &[]),
    (
        "hivewire",
        &[
            "hivewire-broker",
            "hivewire-build",
            "hivewire-bus",
            "hivewire-control",
            "hivewire-crawl",
            "hivewire-flows",
            "hivewire-journal",
            "hivewire-kernel",
            "hivewire-listeners",
            "hivewire-runtime",
            "hivewire-wasm",
            "hivewire-web",
            "hivewire-wire",
        ],
    ),
    // They drive the binary from outside and share no code with it.
    ("hivewire-tests", &["hivewire-build"]),
    // It measures the runtime and flows in its own process, as those who embed them see them.
    (
        "hivewire-bench",
        &[
            "hivewire-broker",
            "hivewire-build",
            "hivewire-bus",
            "hivewire-control",
            "hivewire-crawl",
            "hivewire-flows",
            "hivewire-journal",
            "hivewire-kernel",
            "hivewire-runtime",
            "hivewire-wasm",
            "hivewire-web",
        ],
    ),
];

/// Brokers and client libraries. Whoever names one has built something for it.
const PRODUCTS: &[&str] = &[
    "activemq",
    "kafka",
    "lapin",
    "mosquitto",
    "nats",
    "rabbitmq",
    "stompit",
];
/// What only `wire` and the layers above may know.
const PROTOCOLS: &[&str] = &["amqp", "gamq", "mqtt", "stomp"];
/// What pure code does not touch.
const OUTSIDE: &[&str] = &[
    "std::fs",
    "std::net",
    "std::time::instant",
    "instant::now",
    "systemtime",
    "tokio",
];

/// Words that must not stand in the code of a crate.
const FORBIDDEN: &[(&str, &[&[&str]])] = &[
    ("kernel", &[PRODUCTS, PROTOCOLS, OUTSIDE]),
    ("wire", &[PRODUCTS, OUTSIDE]),
    ("journal", &[PRODUCTS, PROTOCOLS]),
    ("broker", &[PRODUCTS, PROTOCOLS]),
    ("runtime", &[PRODUCTS, PROTOCOLS]),
    ("control", &[PRODUCTS, PROTOCOLS]),
    ("wasm", &[PRODUCTS, PROTOCOLS]),
];

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// A crate and the crates that it uses outside its tests.
struct Package {
    name: String,
    uses: Vec<String>,
}

fn packages() -> Vec<Package> {
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--no-deps",
            "--offline",
            "--format-version",
            "1",
        ])
        .current_dir(repository())
        .output()
        .unwrap();
    let metadata: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    let list = metadata["packages"].as_array().unwrap();
    list.iter().map(package).collect()
}

fn package(value: &Value) -> Package {
    let text = |value: &Value| value["name"].as_str().unwrap().to_owned();
    let dependencies = value["dependencies"].as_array().unwrap().iter();
    Package {
        name: text(value),
        uses: dependencies
            .filter(|dependency| dependency["kind"] != "dev")
            .map(text)
            .collect(),
    }
}

/// What breaks the table.
fn layer_findings(packages: &[Package], layers: &[(&str, &[&str])]) -> Vec<String> {
    let is_ours = |name: &str| packages.iter().any(|package| package.name == name);
    let mut findings = Vec::new();
    for package in packages {
        let name = &package.name;
        let Some((_, allowed)) = layers.iter().find(|(layer, _)| layer == name) else {
            findings.push(format!("{name} stands in no layer: add it to the table"));
            continue;
        };
        let wrong = package.uses.iter().filter(|used| is_ours(used));
        for used in wrong.filter(|used| !allowed.contains(&used.as_str())) {
            findings.push(format!("{name} must not depend on {used}"));
        }
    }
    for (layer, _) in layers.iter().filter(|(layer, _)| !is_ours(layer)) {
        findings.push(format!(
            "there is no crate {layer}: remove it from the table"
        ));
    }
    findings
}

/// The lines of a source in which one of these words stands outside comments.
fn word_findings(place: &str, source: &str, words: &[&str]) -> Vec<String> {
    let code = without_comments(source).to_lowercase();
    let mut findings = Vec::new();
    for (index, line) in code.lines().enumerate() {
        for word in words.iter().filter(|word| has_word(line, word)) {
            findings.push(format!(
                "{place}, line {}: {word} is not for here",
                index + 1
            ));
        }
    }
    findings
}

/// `stomp` stands in `stomp_session`, but `nats` does not stand in `alternatives`.
fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(start, _)| {
        let before = line[..start].chars().next_back();
        let after = line[start + word.len()..].chars().next();
        [before, after]
            .into_iter()
            .flatten()
            .all(|c| !c.is_alphabetic())
    })
}

/// The source with every comment turned into blanks; the lines stay where they are.
fn without_comments(source: &str) -> String {
    let mut code = String::new();
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        let (taken, is_comment) = if rest.starts_with("//") {
            (rest.find('\n').unwrap_or(rest.len()), true)
        } else if rest.starts_with("/*") {
            (rest.find("*/").map_or(rest.len(), |end| end + 2), true)
        } else if rest.starts_with("'\"'") {
            (3, false)
        } else if first == '"' {
            (text_len(rest), false)
        } else {
            (first.len_utf8(), false)
        };
        let (part, after) = rest.split_at(taken);
        if is_comment {
            code.extend(part.chars().filter(|character| *character == '\n'));
        } else {
            code.push_str(part);
        }
        rest = after;
    }
    code
}

/// The length of the text in quotation marks at the start.
fn text_len(source: &str) -> usize {
    let mut escaped = false;
    for (at, character) in source.char_indices().skip(1) {
        match character {
            '"' if !escaped => return at + 1,
            '\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    source.len()
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    found
}

/// What stands between backticks and looks like a path of the repository.
fn named_paths(text: &str) -> Vec<&str> {
    let quoted = text.split('`').skip(1).step_by(2);
    quoted
        .filter(|word| !word.is_empty() && !word.contains(|c: char| c.is_whitespace()))
        // A leading slash is the address of a page or a destination, not a file.
        .filter(|word| !word.starts_with('/') && !word.contains(['<', '*', '{', ':']))
        .filter(|word| word.contains('/') || word.ends_with(".rs") || word.ends_with(".md"))
        .collect()
}

fn path_findings(text: &str, root: &Path) -> Vec<String> {
    let missing = named_paths(text)
        .into_iter()
        .filter(|path| !root.join(path).exists());
    missing
        .map(|path| format!("`{path}` is named, but does not exist from the repository's root"))
        .collect()
}

fn assert_none(findings: &[String]) {
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}

#[test]
fn crates_depend_only_on_what_is_below() {
    let packages = packages();
    assert!(packages.len() >= LAYERS.len(), "some crates are not seen");
    assert_none(&layer_findings(&packages, LAYERS));
}

#[test]
fn lower_layers_know_no_product_protocol_or_socket() {
    let mut findings = Vec::new();
    for (name, words) in FORBIDDEN {
        let folder = repository().join("crates").join(name).join("src");
        let sources = sources(&folder);
        assert!(!sources.is_empty(), "no sources in {}", folder.display());
        for path in sources {
            let place = path.strip_prefix(repository()).unwrap().display();
            let source = fs::read_to_string(&path).unwrap();
            findings.extend(word_findings(&place.to_string(), &source, &words.concat()));
        }
    }
    assert_none(&findings);
}

#[test]
fn the_map_leads_to_places_that_exist() {
    let map = repository().join("docs/ARCHITECTURE.md");
    let text = fs::read_to_string(&map).unwrap_or_else(|error| {
        panic!("docs/ARCHITECTURE.md, the map of the code, cannot be read: {error}")
    });
    assert!(!named_paths(&text).is_empty(), "the map names no path");
    assert_none(&path_findings(&text, repository()));
}

#[test]
fn control_a_wrong_dependency_is_found() {
    let package = |name: &str, uses: &[&str]| Package {
        name: name.to_owned(),
        uses: uses.iter().map(|used| used.to_string()).collect(),
    };
    let layers: &[(&str, &[&str])] = &[("low", &[]), ("high", &["low"]), ("gone", &[])];
    let packages = [
        package("low", &["serde", "high"]),
        package("high", &["low"]),
        package("new", &["low"]),
    ];
    let expected = [
        "low must not depend on high",
        "new stands in no layer: add it to the table",
        "there is no crate gone: remove it from the table",
    ];
    assert_eq!(layer_findings(&packages, layers), expected);
}

#[test]
fn control_dependencies_of_tests_are_free_and_others_are_seen() {
    let value = serde_json::json!({ "name": "a", "dependencies": [
        { "name": "b", "kind": null },
        { "name": "c", "kind": "dev" },
        { "name": "d", "kind": "build" },
    ]});
    assert_eq!(package(&value).uses, ["b", "d"]);
}

#[test]
fn control_a_wrong_word_is_found() {
    let source = "//! Nothing of STOMP.\nlet a = 1; /* stomp\n stomp */ let b = \"// Stomp\";\n\
                  use std::net::TcpStream; // tokio\nlet c = '\"'; // stomp\nlet astomped = 1;\n";
    let words = ["stomp", "std::net", "tokio"];
    let expected = [
        "x.rs, line 3: stomp is not for here",
        "x.rs, line 4: std::net is not for here",
    ];
    assert_eq!(word_findings("x.rs", source, &words), expected);
}

#[test]
fn control_a_path_that_does_not_exist_is_found() {
    let text = "See `tests/tests/layers.rs`, `tests/` and `no/such/file.rs`, also `gone.md`, but `/queue/a`, \
                `a b/c` and `word` are no paths.";
    let findings = path_findings(text, repository());
    assert_eq!(findings.len(), 2, "{findings:?}");
    assert!(findings[0].contains("no/such/file.rs") && findings[1].contains("gone.md"));
}
