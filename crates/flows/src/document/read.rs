//! From values to a document: what does not fit is told with its field, all of it at once.

use std::collections::BTreeMap;

use kernel::StageAddress;
use runtime::{HandOverRule, SupervisionRule};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::fields::fields_of;
use super::http::{HttpRoute, ROUTES_MAX};
use super::json_text::read_json;
use super::model::{Document, Limits, Position, Scale, Stage, USUAL_OUTPUT};
use super::place::{OneOrMany, Place, check_stage_name};
use super::problem::{Path, Positions, Problems, plain};
use super::suggest::hint;
use super::text::read_toml;
use super::{DOCUMENT_BYTES_MAX, EDGES_MAX, OUTPUT_NAME_BYTES_MAX, STAGES_MAX};

/// How deep the parameters of a plug-in may be nested.
const DEPTH_MAX: usize = 60;

/// A document with where its fields stand.
#[derive(Clone, Debug)]
pub struct Parsed {
    /// The document.
    pub document: Document,
    positions: Positions,
}

impl Parsed {
    /// Says where in the text these problems are, also if they were found in another text of the same document.
    #[must_use]
    pub fn locate(&self, problems: Problems) -> Problems {
        problems.anywhere().located(&self.positions)
    }
}

impl Document {
    /// Reads TOML.
    pub fn parse(text: &str) -> Result<Parsed, Problems> {
        let mut problems = Problems::default();
        if text.len() > DOCUMENT_BYTES_MAX {
            problems.error(&Path::default(), too_large(text.len()));
            return Err(problems);
        }
        let mut positions = Positions::of(text);
        let value = read_toml(text, &mut positions, &mut problems);
        read(value, positions, problems)
    }

    /// Reads JSON.
    pub fn parse_json(text: &[u8]) -> Result<Parsed, Problems> {
        let mut problems = Problems::default();
        if text.len() > DOCUMENT_BYTES_MAX {
            problems.error(&Path::default(), too_large(text.len()));
            return Err(problems);
        }
        let mut positions = Positions::of(&String::from_utf8_lossy(text));
        match read_json(text, &mut positions, &mut problems) {
            Some(value) => read(value, positions, problems),
            None => Err(problems),
        }
    }

    /// Reads what was JSON.
    pub fn from_value(value: Value) -> Result<Parsed, Problems> {
        read(value, Positions::default(), Problems::default())
    }
}

fn too_large(bytes: usize) -> String {
    format!(
        "a document has at most {DOCUMENT_BYTES_MAX} bytes, this one has {bytes}: make several flows of it"
    )
}

fn read(
    value: Value,
    mut positions: Positions,
    mut problems: Problems,
) -> Result<Parsed, Problems> {
    let document = read_document(value, &mut positions, &mut problems);
    match document {
        Some(document) if !problems.has_errors() => Ok(Parsed {
            document,
            positions,
        }),
        _ => Err(problems.located(&positions)),
    }
}

fn read_document(
    value: Value,
    positions: &mut Positions,
    problems: &mut Problems,
) -> Option<Document> {
    let root = Path::default();
    let Value::Object(mut members) = value else {
        problems.error(&root, "a flow document is a table");
        return None;
    };
    let stages = members.remove("stages").unwrap_or_else(|| json!({}));
    let path = root.to("stages");
    let stages = match stages {
        Value::Object(stages) if stages.len() <= STAGES_MAX => read_stages(stages, &path, problems),
        Value::Object(stages) => {
            let count = stages.len();
            problems.error(&path, format_args!("a flow has at most {STAGES_MAX} stages, this one has {count}: make several flows of it"));
            return None;
        }
        _ => {
            problems.error(&path, "stages are tables: write [stages.NAME] for each");
            return None;
        }
    };
    let routes = members.remove("http").unwrap_or_else(|| json!([]));
    let routes = read_routes(routes, &root.to("http"), problems);
    let sample = json!({ "flow": "-" });
    let document: Option<Document> = read_struct(&members, &sample, &root, problems);
    let mut document = document?;
    if let Err(error) = StageAddress::new(&document.flow, "stage") {
        problems.error(&root.to("flow"), error);
        return None;
    }
    document.stages = stages;
    document.http = routes;
    normalise(&mut document, positions, problems);
    Some(document)
}

fn read_stages(
    stages: Map<String, Value>,
    path: &Path,
    problems: &mut Problems,
) -> BTreeMap<String, Stage> {
    let mut read = BTreeMap::new();
    for (name, value) in stages {
        let path = path.to(&name);
        if let Err(error) = check_stage_name(&name) {
            problems.error_at_name(&path, error);
        }
        let Value::Object(members) = value else {
            problems.error(
                &path,
                format_args!("a stage is a table: write [stages.{name}]"),
            );
            continue;
        };
        if let Some(parameters) = members.get("parameters") {
            check_parameters(parameters, &path.to("parameters"), 0, problems);
        }
        let sample = json!({ "plugin": "p" });
        if let Some(stage) = read_struct(&members, &sample, &path, problems) {
            read.insert(name, stage);
        }
    }
    read
}

fn read_routes(routes: Value, path: &Path, problems: &mut Problems) -> Vec<HttpRoute> {
    let Value::Array(routes) = routes else {
        problems.error(path, "routes are a list: write [[http]] for each");
        return Vec::new();
    };
    if routes.len() > ROUTES_MAX {
        let count = routes.len();
        problems.error(path, format_args!("a flow has at most {ROUTES_MAX} routes, this one has {count}: make several flows of it"));
        return Vec::new();
    }
    let mut read = Vec::new();
    let sample = json!({ "route": "GET /", "stage": "s" });
    for (index, route) in routes.into_iter().enumerate() {
        let path = path.to(index);
        let Value::Object(members) = route else {
            problems.error(&path, "a route is a table: write [[http]] for each");
            continue;
        };
        read.extend(read_struct::<HttpRoute>(&members, &sample, &path, problems));
    }
    read
}

/// What cannot be written in TOML is refused in JSON, too, so that every document can be exported.
fn check_parameters(value: &Value, path: &Path, depth: usize, problems: &mut Problems) {
    let mut refuse = |why: &str| problems.error(path, why);
    if depth > DEPTH_MAX {
        return refuse("parameters are nested too deep");
    }
    match value {
        Value::Null if depth > 0 => refuse("null cannot be written in TOML: leave it out"),
        Value::Number(number) if number.is_u64() && !number.is_i64() => {
            refuse("this number is too large: write one that fits 64 bits with a sign");
        }
        Value::Array(list) => {
            for (index, element) in list.iter().enumerate() {
                check_parameters(element, &path.to(index), depth + 1, problems);
            }
        }
        Value::Object(members) => {
            for (name, member) in members {
                check_parameters(member, &path.to(name), depth + 1, problems);
            }
        }
        _ => {}
    }
}

/// Makes a struct of a table. `sample` has the fields that it cannot do without.
fn read_struct<T: DeserializeOwned>(
    members: &Map<String, Value>,
    sample: &Value,
    path: &Path,
    problems: &mut Problems,
) -> Option<T> {
    let whole = match T::deserialize(Value::Object(members.clone())) {
        Ok(read) => return Some(read),
        Err(error) => error,
    };
    let mut search = Search {
        problems,
        found: false,
    };
    search.unknown_fields(members, fields_of::<T>(), path);
    for (name, value) in members {
        let fits = |value: Value| {
            let mut members = sample.as_object().cloned().unwrap_or_default();
            members.insert(name.clone(), value);
            match T::deserialize(Value::Object(members)) {
                Ok(_) => None,
                Err(error) => Some(error.to_string()),
            }
        };
        if fields_of::<T>().contains(&name.as_str()) {
            search.culprits(&fits, value, &path.to(name));
        }
    }
    // What no field has to answer for alone: one is missing.
    if !search.found {
        problems.error_at_name(path, plain(&whole.to_string()));
    }
    None
}

/// Finds what is wrong by trying parts of a value alone.
struct Search<'a> {
    problems: &'a mut Problems,
    found: bool,
}

impl Search<'_> {
    fn unknown_fields(
        &mut self,
        members: &Map<String, Value>,
        known: &'static [&'static str],
        path: &Path,
    ) {
        for name in members
            .keys()
            .filter(|name| !known.contains(&name.as_str()))
        {
            self.found = true;
            let hint = hint(name, known.iter().copied());
            self.problems.error_at_name(
                &path.to(name),
                format_args!("there is no field {name:?} here{hint}"),
            );
        }
    }

    /// `mistake` tells what is wrong if a value stands in this place.
    fn culprits(&mut self, mistake: &dyn Fn(Value) -> Option<String>, value: &Value, path: &Path) {
        let Some(message) = mistake(value.clone()) else {
            return;
        };
        self.found = false;
        match value {
            Value::Array(list) => {
                for (index, element) in list.iter().enumerate() {
                    let alone = |element: Value| mistake(Value::Array(vec![element]));
                    self.culprits(&alone, element, &path.to(index));
                }
            }
            Value::Object(members) => {
                let known = known_below(path);
                if let Some(known) = known {
                    self.unknown_fields(members, known, path);
                }
                let is_known = |name: &str| known.is_none_or(|known| known.contains(&name));
                for (name, member) in members.iter().filter(|(name, _)| is_known(name)) {
                    let alone = |member: Value| mistake(json!({ name: member }));
                    self.culprits(&alone, member, &path.to(name));
                }
            }
            _ => {}
        }
        if !self.found {
            self.problems.error(path, plain(&message));
        }
        self.found = true;
    }
}

/// The fields of the tables within a stage, of those that have fixed ones.
fn known_below(path: &Path) -> Option<&'static [&'static str]> {
    match path.last() {
        "scale" => Some(fields_of::<Scale>()),
        "limits" => Some(fields_of::<Limits>()),
        "supervision" => Some(fields_of::<SupervisionRule>()),
        "hand_over" => Some(fields_of::<HandOverRule>()),
        "position" => Some(fields_of::<Position>()),
        _ => None,
    }
}

/// Puts all edges where they begin.
fn normalise(document: &mut Document, positions: &mut Positions, problems: &mut Problems) {
    let names: Vec<String> = document.stages.keys().cloned().collect();
    for name in &names {
        take_to(document, name, positions, problems);
    }
    let mut edges = 0;
    for name in &names {
        shorten(document, name, problems, &mut edges);
    }
    for name in &names {
        take_from(document, name, positions, problems, &mut edges);
    }
    if edges > EDGES_MAX {
        let path = Path::default().to("stages");
        problems.error(&path, format_args!("a flow has at most {EDGES_MAX} edges, this one has {edges}: make several flows of it"));
    }
}

/// `to` is short for the usual output.
fn take_to(
    document: &mut Document,
    name: &str,
    positions: &mut Positions,
    problems: &mut Problems,
) {
    let Some(stage) = document.stages.get_mut(name) else {
        return;
    };
    let to = std::mem::take(&mut stage.to);
    if to.is_empty() {
        return;
    }
    let path = Path::stage(name);
    if stage.outputs.contains_key(USUAL_OUTPUT) {
        problems.error_at_name(
            &path.to("to"),
            "`to` is short for outputs.out, which is there, too: take one of them out",
        );
        return;
    }
    let output = path.to("outputs").to(USUAL_OUTPUT);
    for index in 0..to.0.len() {
        let written = match to.0.len() {
            1 => path.to("to"),
            _ => path.to("to").to(index),
        };
        positions.note_alias(output.to(index), written);
    }
    positions.note_alias(output, path.to("to"));
    stage.outputs.insert(USUAL_OUTPUT.to_owned(), to);
}

fn shorten(document: &mut Document, name: &str, problems: &mut Problems, edges: &mut usize) {
    let flow = document.flow.clone();
    let Some(stage) = document.stages.get_mut(name) else {
        return;
    };
    stage.outputs.retain(|_, places| !places.is_empty());
    for (output, places) in &mut stage.outputs {
        let path = Path::stage(name).to("outputs").to(output);
        if let Err(reason) = check_output_name(output) {
            problems.error_at_name(&path, reason);
        }
        *edges += places.0.len();
        let mut seen = std::collections::BTreeSet::new();
        for (index, place) in places.0.iter_mut().enumerate() {
            *place = place.clone().shortened(&flow);
            if !seen.insert(place.clone()) {
                problems.error(
                    &path.to(index),
                    format_args!("{output} leads twice to {place}: take one of them out"),
                );
            }
        }
    }
}

fn check_output_name(name: &str) -> Result<(), String> {
    let fits = !name.is_empty() && name.len() <= OUTPUT_NAME_BYTES_MAX;
    match fits && !name.chars().any(|c| c.is_control() || c.is_whitespace()) {
        true => Ok(()),
        false => Err(format!(
            "an output has a name of 1 to {OUTPUT_NAME_BYTES_MAX} bytes without white space"
        )),
    }
}

/// `from` names edges at their receiving end.
fn take_from(
    document: &mut Document,
    name: &str,
    positions: &mut Positions,
    problems: &mut Problems,
    edges: &mut usize,
) {
    let Some(stage) = document.stages.get_mut(name) else {
        return;
    };
    let senders = std::mem::take(&mut stage.from);
    let written = Path::stage(name).to("from");
    let place = Place::Stage(name.to_owned());
    let is_alone = senders.0.len() == 1;
    for (index, sender) in senders.0.into_iter().enumerate() {
        let written = match is_alone {
            true => written.clone(),
            false => written.to(index),
        };
        if !document.stages.contains_key(&sender.stage) {
            let names = document.stages.keys().map(String::as_str);
            let hint = hint(&sender.stage, names);
            problems.error(
                &written,
                format_args!("there is no stage {:?} in this flow{hint}", sender.stage),
            );
            continue;
        }
        let output = sender.output.unwrap_or_else(|| USUAL_OUTPUT.to_owned());
        if let Err(reason) = check_output_name(&output) {
            problems.error(&written, reason);
        }
        let Some(stage) = document.stages.get_mut(&sender.stage) else {
            continue;
        };
        let path = Path::stage(&sender.stage).to("outputs").to(&output);
        let is_new = !stage.outputs.contains_key(&output);
        let places: &mut OneOrMany<Place> = stage.outputs.entry(output).or_default();
        // The same edge may be named at both ends.
        if places.0.contains(&place) {
            continue;
        }
        if is_new {
            positions.note_alias(path.clone(), written.clone());
        }
        positions.note_alias(path.to(places.0.len()), written);
        places.0.push(place.clone());
        *edges += 1;
    }
}
