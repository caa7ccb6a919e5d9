//! What is wrong with a document is told, all of it, with the line and column where it stands.

use flows::document::{
    Catalogue, Document, Found, PluginReference, Problem, Problems, Severity, check,
};
use kernel::descriptor::{Descriptor, PluginKind};
use serde_json::json;

/// A few plug-ins of every sort.
struct Few;

impl Catalogue for Few {
    fn find(&self, plugin: &PluginReference) -> Found {
        let descriptor = |kind, outputs: &[&str]| Descriptor {
            name: plugin.to_string(),
            kind,
            outputs: outputs.iter().map(|output| (*output).into()).collect(),
            ..Descriptor::default()
        };
        let found = match plugin.to_string().as_str() {
            "lines" => descriptor(PluginKind::Provider, &["out"]),
            "map" => Descriptor {
                parameters: Some(json!({
                    "type": "object",
                    "properties": { "each": { "type": "string" }, "limits": { "type": "array", "items": { "type": "integer" } } },
                    "additionalProperties": false,
                })),
                ..descriptor(PluginKind::Processor, &["out", "refused"])
            },
            "sink" => descriptor(PluginKind::Processor, &[]),
            "sender" => Descriptor {
                capabilities: vec!["send:queue:*".to_owned()],
                ..descriptor(PluginKind::Processor, &[])
            },
            "/unread.wasm" => return Found::Unseen("there is no node".to_owned()),
            _ => return Found::Nothing(format!("there is no plug-in {plugin}")),
        };
        Found::Plugin(Box::new(found))
    }

    fn ids(&self) -> Vec<String> {
        ["lines", "map", "sink", "sender"]
            .map(str::to_owned)
            .to_vec()
    }
}

/// Everything that is wrong with a text.
fn problems_of(text: &str) -> Problems {
    match Document::parse(text) {
        Ok(parsed) => parsed.locate(check(&parsed.document, &Few)),
        Err(problems) => problems,
    }
}

const SOUND: &str = "\
flow = \"f\"

[stages.lines]
plugin = \"lines\"
to = \"words\"

[stages.words]
plugin = \"map\"
parameters = { each = \"x\", limits = [1, 2] }
outputs = { out = [\"count\", \"queue:q\"], refused = \"queue:odd\" }

[stages.count]
plugin = \"sink\"
workers = 2

[[http]]
route = \"POST /words\"
stage = \"words\"
timeout = \"2s\"

[[http]]
route = \"GET /{id}\"
stage = \"count\"
reply = false
headers = [\"accept\"]
";

#[test]
fn what_is_sound_has_no_problem() {
    assert_eq!(problems_of(SOUND).to_string(), "");
}

/// What is replaced in the sound document by what; then where the problem is, and a part of what it says.
type Case = (
    &'static str,
    &'static str,
    usize,
    usize,
    &'static str,
    &'static str,
);

const CASES: &[Case] = &[
    (
        "flow = \"f\"",
        "flow = \"a b\"",
        1,
        8,
        "flow",
        "cannot name a flow",
    ),
    (
        "flow = \"f\"",
        "flow = 7",
        1,
        8,
        "flow",
        "expected a string",
    ),
    (
        "flow = \"f\"",
        "flwo = \"f\"",
        1,
        1,
        "flwo",
        "did you mean \"flow\"?",
    ),
    (
        "flow = \"f\"\n",
        "flow = \"f\"\ndelivery = \"twice\"\n",
        2,
        12,
        "delivery",
        "at-most-once",
    ),
    ("flow = \"f\"", "flow = ", 1, 8, "", "no TOML"),
    (
        "workers = 2",
        "wrokers = 2",
        14,
        1,
        "stages.count.wrokers",
        "did you mean \"workers\"?",
    ),
    (
        "workers = 2",
        "workers = \"2\"",
        14,
        11,
        "stages.count.workers",
        "expected a whole number",
    ),
    (
        "workers = 2",
        "workers = 0",
        14,
        11,
        "stages.count.workers",
        "1 to ",
    ),
    (
        "workers = 2",
        "workers = 99999999999999999999",
        14,
        11,
        "stages.count.workers",
        "64 bits",
    ),
    (
        "workers = 2",
        "workers = 200\nkey = \"body\"",
        14,
        11,
        "stages.count.workers",
        "1 to 128",
    ),
    (
        "workers = 2",
        "workers = 2\nscale = {}",
        14,
        11,
        "stages.count.workers",
        "either workers",
    ),
    (
        "workers = 2",
        "scale = { min = 3, max = 2 }",
        14,
        9,
        "stages.count.scale",
        "min is 3 and max is 2",
    ),
    (
        "workers = 2",
        "scale = { mni = 3 }",
        14,
        11,
        "stages.count.scale.mni",
        "did you mean \"min\"?",
    ),
    (
        "workers = 2",
        "scale = { latency = \"5\" }",
        14,
        21,
        "stages.count.scale.latency",
        "100ms",
    ),
    (
        "workers = 2",
        "scale = { queue_length = 5 }",
        14,
        9,
        "stages.count.scale",
        "by = ",
    ),
    (
        "workers = 2",
        "scale = { max = 129 }\nkey = \"body\"",
        14,
        17,
        "stages.count.scale.max",
        "128 buckets",
    ),
    (
        "workers = 2",
        "limits = { batch_ms = 0 }",
        14,
        23,
        "stages.count.limits.batch_ms",
        "zero",
    ),
    (
        "workers = 2",
        "limits = { batch_sm = 1 }",
        14,
        12,
        "stages.count.limits.batch_sm",
        "did you mean \"batch_ms\"?",
    ),
    (
        "workers = 2",
        "supervision = { strategy = \"all\" }",
        14,
        28,
        "stages.count.supervision.strategy",
        "one-for-all",
    ),
    (
        "workers = 2",
        "key = \"k\"",
        14,
        7,
        "stages.count.key",
        "header:NAME",
    ),
    (
        "workers = 2",
        "router = \"sticky\"",
        14,
        10,
        "stages.count.router",
        "round-robin",
    ),
    (
        "workers = 2",
        "router = \"random\"\nkey = \"body\"",
        14,
        10,
        "stages.count.router",
        "either a router or a key",
    ),
    (
        "workers = 2",
        "on = [\"a\", \"b c\"]",
        14,
        12,
        "stages.count.on.1",
        "no name of a node",
    ),
    (
        "workers = 2",
        "grants = [\"send:queue:*\", \"all\"]",
        14,
        27,
        "stages.count.grants.1",
        "send:ADDRESS",
    ),
    (
        "workers = 2",
        "from = \"wrods\"",
        14,
        8,
        "stages.count.from",
        "did you mean \"words\"?",
    ),
    (
        "workers = 2",
        "from = [\"lines\", \"words.odd\"]",
        14,
        18,
        "stages.words.outputs.odd",
        "has no output \"odd\"",
    ),
    (
        "\"count\", ",
        "\"cuont\", ",
        10,
        20,
        "stages.words.outputs.out.0",
        "did you mean \"count\"?",
    ),
    (
        "\"count\", ",
        "\"count\", \"f/nobody\", ",
        10,
        29,
        "stages.words.outputs.out.1",
        "no stage \"nobody\"",
    ),
    (
        "\"count\", ",
        "\"count\", \"count\", ",
        10,
        29,
        "stages.words.outputs.out.1",
        "twice",
    ),
    (
        "\"count\", ",
        "\"count\", \"lines\", ",
        10,
        29,
        "stages.words.outputs.out.1",
        "is a provider",
    ),
    (
        "\"count\", ",
        "\"count\", \"queue:\", ",
        10,
        29,
        "stages.words.outputs.out.1",
        "at least one character",
    ),
    (
        "refused = ",
        "refsued = ",
        10,
        41,
        "stages.words.outputs.refsued",
        "did you mean \"refused\"?",
    ),
    (
        "to = \"words\"",
        "to = \"wrods\"",
        5,
        6,
        "stages.lines.outputs.out.0",
        "did you mean \"words\"?",
    ),
    (
        "to = \"words\"",
        "to = [\"words\", \"wrods\"]",
        5,
        16,
        "stages.lines.outputs.out.1",
        "did you mean \"words\"?",
    ),
    (
        "to = \"words\"",
        "to = \"words\"\noutputs = { out = \"count\" }",
        5,
        1,
        "stages.lines.to",
        "short for outputs.out",
    ),
    (
        "to = \"words\"",
        "to = \"words\"\nkey = \"body\"",
        6,
        7,
        "stages.lines.key",
        "a provider has no input",
    ),
    (
        "[1, 2]",
        "[1, \"2\"]",
        9,
        41,
        "stages.words.parameters.limits.1",
        "integer",
    ),
    (
        "each = ",
        "eahc = ",
        9,
        16,
        "stages.words.parameters.eahc",
        "did you mean \"each\"?",
    ),
    (
        "plugin = \"map\"",
        "plugin = \"mpa\"",
        8,
        10,
        "stages.words.plugin",
        "did you mean \"map\"?",
    ),
    (
        "plugin = \"map\"",
        "plugin = \"a b\"",
        8,
        10,
        "stages.words.plugin",
        "names no plug-in",
    ),
    (
        "plugin = \"sink\"",
        "",
        12,
        9,
        "stages.count",
        "`plugin` is missing",
    ),
    (
        "plugin = \"sink\"",
        "plugin = \"sender\"",
        12,
        9,
        "stages.count.grants",
        "send:queue:*",
    ),
    (
        "[stages.count]",
        "[stages.\"co unt\"]",
        12,
        9,
        "stages.co unt",
        "cannot name a flow, stage",
    ),
    (
        "\"POST /words\"",
        "\"POST words\"",
        17,
        9,
        "http.0.route",
        "begins with /",
    ),
    (
        "\"POST /words\"",
        "\"GET /{other}\"",
        22,
        9,
        "http.1.route",
        "the route for /{other} takes the same requests",
    ),
    (
        "stage = \"words\"",
        "stage = \"wrods\"",
        18,
        9,
        "http.0.stage",
        "did you mean \"words\"?",
    ),
    (
        "stage = \"words\"",
        "stage = \"lines\"",
        18,
        9,
        "http.0.stage",
        "it cannot get requests",
    ),
    (
        "stage = \"words\"",
        "",
        16,
        1,
        "http.0",
        "`stage` is missing",
    ),
    (
        "stage = \"words\"",
        "stagee = \"words\"",
        18,
        1,
        "http.0.stagee",
        "did you mean \"stage\"?",
    ),
    ("\"2s\"", "\"2\"", 19, 11, "http.0.timeout", "is no time"),
    (
        "\"2s\"",
        "\"2h\"",
        19,
        11,
        "http.0.timeout",
        "between 1ms and 5m",
    ),
    (
        "reply = false",
        "reply = false\ntimeout = \"1s\"",
        25,
        11,
        "http.1.timeout",
        "nothing is waited for",
    ),
    (
        "[\"accept\"]",
        "[\"Accept\"]",
        25,
        12,
        "http.1.headers.0",
        "in lower case",
    ),
];

#[test]
fn problems_point_at_the_line() {
    let mut wrong = Vec::new();
    for (part, by, line, column, path, expected) in CASES {
        assert!(SOUND.contains(part), "{part}");
        let text = SOUND.replacen(part, by, 1);
        let problems = problems_of(&text);
        let fits = |problem: &Problem| {
            problem.severity == Severity::Error
                && (problem.line, problem.column) == (Some(*line), Some(*column))
                && problem.path == *path
                && problem.message.contains(expected)
        };
        if !problems.iter().any(fits) {
            wrong.push(format!(
                "{by}: expected {line}:{column}: {path}: ...{expected}... but got\n{problems}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn several_problems_are_told_at_once_and_in_order() {
    let text = SOUND
        .replace(
            "workers = 2",
            "wrokers = 2\nlimits = { batch_ms = \"x\", call_ms_max = -1 }",
        )
        .replace("to = \"words\"", "too = \"words\"")
        .replace("plugin = \"map\"", "plugin = \"ma p\"");
    let lines: Vec<_> = problems_of(&text)
        .iter()
        .map(|problem| problem.line)
        .collect();
    assert_eq!(lines, [5, 8, 14, 15, 15].map(Some));
    let broken = problems_of("flow = \n[stages.a\nplugin = 'x'\nb = [1,\n");
    assert!(broken.iter().count() > 1, "{broken}");
}

#[test]
fn what_may_be_meant_is_a_warning() {
    let elsewhere = SOUND.replace("to = \"words\"", "to = \"queue:f.words\"");
    let problems = problems_of(&elsewhere);
    assert!(!problems.has_errors());
    let text = problems.to_string();
    assert!(text.contains("5:6: warning: "), "{text}");
    assert!(
        !text.contains("no stage leads here"),
        "a route does: {text}"
    );
    let (unrouted, _) = elsewhere.split_once("[[http]]").unwrap();
    let text = problems_of(unrouted).to_string();
    assert!(text.contains("no stage leads here"), "{text}");
    let problems = problems_of(&SOUND.replace("plugin = \"sink\"", "plugin = \"/unread.wasm\""));
    assert!(!problems.has_errors());
    assert!(
        problems
            .to_string()
            .contains("is not checked: there is no node")
    );
}

#[test]
fn a_document_in_json_has_problems_with_lines_if_it_is_a_text() {
    let json = json!({ "flow": "f", "stages": { "a": { "plugin": "map", "parameters": { "each": null }, "worker": 1 } } });
    let places = |problems: Problems| -> Vec<(String, Option<usize>, Option<usize>)> {
        let problems = problems.iter();
        let place = |problem: &Problem| (problem.path.clone(), problem.line, problem.column);
        problems.map(place).collect()
    };
    let problems = Document::from_value(json.clone()).unwrap_err();
    let (each, worker) = ("stages.a.parameters.each", "stages.a.worker");
    assert_eq!(
        places(problems),
        [
            (each.to_owned(), None, None),
            (worker.to_owned(), None, None)
        ]
    );
    let text = serde_json::to_string_pretty(&json).unwrap();
    let problems = Document::parse_json(text.as_bytes()).unwrap_err();
    assert_eq!(
        places(problems),
        [
            (each.to_owned(), Some(6), Some(17)),
            (worker.to_owned(), Some(9), Some(7))
        ]
    );
    let text = r#"{"flow": "f", "stages": {"a\"é": {"plugin": "map"}, "b": {"plugin": "sink",
        "to": ["a", "c"]}}}"#;
    let problems = Document::parse_json(text.as_bytes()).unwrap_err();
    let name = ("stages.a\"é".to_owned(), Some(1), Some(26));
    assert!(places(problems.clone()).contains(&name), "{problems}");
    for (broken, place) in [("{", (1, 1)), ("{\n  \"flow\": x\n}", (2, 11))] {
        let problems = Document::parse_json(broken.as_bytes()).unwrap_err();
        let (line, column) = place;
        let expected = (String::new(), Some(line), Some(column));
        assert_eq!(places(problems.clone()), [expected], "{problems}");
    }
    assert!(Document::parse_json(b"[]").is_err());
}

#[test]
fn what_is_too_large_is_refused() {
    use flows::document::{DOCUMENT_BYTES_MAX, EDGES_MAX, STAGES_MAX};
    let long = "#".repeat(DOCUMENT_BYTES_MAX + 1);
    assert!(problems_of(&long).to_string().contains("bytes"));
    let many: String = (0..=STAGES_MAX)
        .map(|number| format!("stages.s{number}.plugin = \"map\"\n"))
        .collect();
    assert!(
        problems_of(&format!("flow = \"f\"\n{many}"))
            .to_string()
            .contains("stages")
    );
    let queues: Vec<String> = (0..=EDGES_MAX)
        .map(|number| format!("queue:{number}"))
        .collect();
    let wide = format!("flow = \"f\"\n[stages.a]\nplugin = \"map\"\nto = {queues:?}\n");
    assert!(problems_of(&wide).to_string().contains("edges"));
}

#[test]
fn of_endlessly_many_problems_the_first_are_told() {
    let stages: String = (0..5_000)
        .map(|number| format!("[stages.s{number}]\nplugin = \"map\"\nto = \"t{number}\"\n"))
        .collect();
    let problems = problems_of(&format!("flow = \"f\"\n{stages}"));
    assert!(problems.has_errors());
    assert!(problems.iter().count() <= flows::document::PROBLEMS_MAX + 1);
}
