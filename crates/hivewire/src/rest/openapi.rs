//! `GET /api/v1/openapi.json`: the document that describes all routes, made of the table of routes and of
//! the types that handlers take and give.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use axum::http::header;
use axum::response::{IntoResponse, Response};
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use super::etag::etag_of;
use super::operation::{Answer, Content, JSON, Operation};
use super::problem::Problem;
use super::{ROUTES, Route};

const SCHEMAS: &str = "#/components/schemas/";
/// Marks answers that may go on for as long as anybody listens.
const STREAMS: &str = "x-hivewire-streams";
/// The only routes that need no token.
const OPEN: [&str; 3] = ["/", "/assets/{file}", "/health"];

static DOCUMENT: LazyLock<(String, String)> = LazyLock::new(|| {
    let text = text();
    let etag = etag_of(text.as_bytes());
    (text, etag)
});

pub(super) async fn show() -> Response {
    let (text, etag) = &*DOCUMENT;
    let headers = [(header::CONTENT_TYPE, JSON), (header::ETAG, etag.as_str())];
    (headers, text.as_str()).into_response()
}

/// The document as it is served and as it stands in the reference.
pub(crate) fn text() -> String {
    let mut text = serde_json::to_string_pretty(&document()).expect("a document is JSON");
    text.push('\n');
    text
}

/// Refusals: the status, the name of the response and when it comes.
const REFUSALS: &[(u16, &str, &str)] = &[
    (400, "BadRequest", "The request cannot be understood"),
    (401, "TokenNeeded", "The token is missing or wrong"),
    (403, "Forbidden", "Wrong Host or Origin"),
    (404, "NotFound", "There is nothing of that name"),
    (408, "TooSlow", "The body took too long"),
    (409, "Conflict", "Not possible here and now"),
    (412, "Changed", "What is there is not what If-Match names"),
    (413, "TooLarge", "The body is larger than allowed"),
    (
        422,
        "Refused",
        "A deployment or a plug-in was refused, or a key was used for another request",
    ),
    (500, "Internal", "Something broke in the node"),
    (502, "BadGateway", "Somebody else gave no good answer"),
    (
        503,
        "NotReady",
        "Starting, draining, too busy, or the journal has failed",
    ),
    (504, "NoReply", "No reply or no confirmation in time"),
    (507, "Full", "No room"),
];

/// What is said about things in the braces of paths.
const PLACES: &[(&str, &str)] = &[
    (
        "address",
        "`flow/stage`, `flow/stage/3`, `flow/stage/3/child`, `queue:NAME` or `topic:NAME`, percent-encoded",
    ),
    (
        "bootstrapperId",
        "the id that `/registry/system/list` gives, or the name of a node",
    ),
    ("file", "the name of a file, as the studio asks for it"),
    ("flow", "the name of a flow"),
    ("id", "the id, percent-encoded"),
    ("key", "a key of the configuration, such as `logs.filter`"),
    (
        "name",
        "the name of a queue or topic, percent-encoded: `orders/new` is `orders%2Fnew`",
    ),
    ("node", "the name of a node"),
    ("stage", "the name of a stage in its flow"),
    (
        "version",
        "the version; where something is read, also `newest`",
    ),
    (
        "worker",
        "the number of a worker, or `3/child` percent-encoded",
    ),
];

/// The schemas of what is taken and of what is given. The same type can be two things: what may be left
/// out in a request is always there in an answer.
struct Schemas {
    taken: SchemaGenerator,
    given: SchemaGenerator,
}

fn document() -> Value {
    let settings = || {
        SchemaSettings::draft2020_12().with(|settings| {
            settings.definitions_path = "/components/schemas".into();
            settings.meta_schema = None;
        })
    };
    let mut schemas = Schemas {
        taken: settings().for_deserialize().into_generator(),
        given: settings().for_serialize().into_generator(),
    };
    let mut tags = BTreeSet::new();
    let mut paths = Map::new();
    for route in ROUTES {
        let operation = (route.handler)().operation;
        tags.insert(operation.tag.clone());
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        path[route.method.to_lowercase()] = described(&mut schemas, route, &operation);
    }
    schemas.given.subschema_for::<Problem>();
    let mut paths = Value::Object(paths);
    let components = schemas.merge(&mut paths);
    let mut document = json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Hivewire",
            "version": env!("CARGO_PKG_VERSION"),
            "summary": "Queues, topics, flows, plug-ins and nodes of Hivewire over HTTP",
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
        },
        "servers": [{ "url": "/" }],
        "security": [{ "token": [] }],
        "tags": tags.iter().map(|tag| json!({ "name": tag })).collect::<Vec<_>>(),
        "paths": paths,
        "components": {
            "schemas": components,
            "responses": refusals(),
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "The token lies in the file `token` of the data folder.",
                },
            },
        },
    });
    plain_descriptions(&mut document);
    document.sort_all_objects();
    document
}

fn described(schemas: &mut Schemas, route: &Route, operation: &Operation) -> Value {
    let mut shown = json!({
        "operationId": operation.id,
        "tags": [operation.tag],
        "summary": route.summary,
        "parameters": parameters(schemas, route, operation),
        "responses": responses(schemas, route, operation),
    });
    if !operation.body.is_empty() {
        shown["requestBody"] = json!({
            "required": operation.needs_body,
            "content": contents(&mut schemas.taken, &operation.body),
        });
    }
    if OPEN.contains(&route.path) {
        shown["security"] = json!([]);
    }
    if operation.streams {
        shown[STREAMS] = true.into();
    }
    shown
}

fn parameters(schemas: &mut Schemas, route: &Route, operation: &Operation) -> Vec<Value> {
    let generator = &mut schemas.taken;
    let places = operation.path.map(|schema| schema(generator).to_value());
    let mut all = Vec::new();
    for (index, name) in places_of(route.path).enumerate() {
        let several = places.as_ref().and_then(|places| places.get("prefixItems"));
        let schema = match several {
            Some(several) => several[index].clone(),
            None => places
                .clone()
                .unwrap_or_else(|| json!({ "type": "string" })),
        };
        let meaning = PLACES.iter().find(|(place, _)| *place == name);
        all.push(json!({
            "name": name,
            "in": "path",
            "required": true,
            "description": meaning.map_or("", |(_, meaning)| meaning),
            "schema": schema,
        }));
    }
    if let Some(query) = operation.query {
        all.extend(query_parameters(&query(generator).to_value()));
    }
    for (name, meaning) in &operation.headers {
        all.push(json!({
            "name": name,
            "in": "header",
            "description": meaning,
            "schema": { "type": "string" },
        }));
    }
    all
}

/// What stands in the braces of a path.
fn places_of(path: &'static str) -> impl Iterator<Item = &'static str> {
    let parts = path.split('/');
    parts.filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
}

fn query_parameters(schema: &Value) -> Vec<Value> {
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let properties = schema["properties"].as_object().cloned();
    let parameter = |(name, mut schema): (String, Value)| {
        without_null(&mut schema);
        let description = schema.as_object_mut().and_then(|s| s.remove("description"));
        json!({
            "name": name,
            "in": "query",
            "required": required.contains(&json!(name)),
            "description": description.unwrap_or_else(|| json!("")),
            "schema": schema,
        })
    };
    let properties = properties.unwrap_or_default().into_iter();
    properties.map(parameter).collect()
}

/// What stands behind a question mark is there or not, and never null.
fn without_null(schema: &mut Value) {
    if let Some(kinds) = schema["type"].as_array() {
        let kinds: Vec<_> = kinds.iter().filter(|kind| *kind != "null").collect();
        if let [kind] = kinds[..] {
            schema["type"] = kind.clone();
        }
    }
    if let Some(either) = schema["anyOf"].as_array() {
        let either: Vec<_> = either.iter().filter(|s| s["type"] != "null").collect();
        if let [one] = either[..] {
            let mut one = one.clone();
            if let Some(description) = schema.get("description") {
                one["description"] = description.clone();
            }
            *schema = one;
        }
    }
    if let Some(object) = schema.as_object_mut()
        && object.get("default") == Some(&Value::Null)
    {
        object.remove("default");
    }
}

fn responses(schemas: &mut Schemas, route: &Route, operation: &Operation) -> Value {
    let mut all = Map::new();
    for (status, answer) in &operation.answers {
        let key = status.to_string();
        all.insert(key, response(schemas, *status, answer));
    }
    let mut fails = operation.fails.clone();
    fails.insert(403);
    if !OPEN.contains(&route.path) {
        fails.insert(401);
    }
    for status in fails {
        let known = REFUSALS.iter().find(|(known, ..)| *known == status);
        let (_, name, _) = known.expect("every status of a refusal is listed");
        // Such an answer may also be something of its own.
        all.entry(status.to_string())
            .or_insert_with(|| json!({ "$ref": format!("#/components/responses/{name}") }));
    }
    all.into()
}

fn response(schemas: &mut Schemas, status: u16, answer: &Answer) -> Value {
    let description = match status {
        101 => "The protocol changes",
        304 => "Nothing has changed",
        200..300 => "Done",
        _ => "Not as it should be",
    };
    let mut shown = json!({ "description": description });
    if !answer.content.is_empty() {
        shown["content"] = contents(&mut schemas.given, &answer.content);
    }
    if answer.has_etag {
        shown["headers"] = json!({
            "ETag": {
                "description": "Changes with what the answer says",
                "schema": { "type": "string" },
            },
        });
    }
    shown
}

fn contents(generator: &mut SchemaGenerator, contents: &[Content]) -> Value {
    let content = |(kind, schema): &Content| {
        let shown = match schema {
            Some(schema) => json!({ "schema": schema(generator) }),
            None => json!({}),
        };
        ((*kind).to_owned(), shown)
    };
    Value::Object(contents.iter().map(content).collect())
}

fn refusals() -> Value {
    let content = json!({
        "application/problem+json": { "schema": { "$ref": format!("{SCHEMAS}Problem") } },
    });
    let refusal = |(_, name, description): &(u16, &str, &str)| {
        let shown = json!({ "description": description, "content": content });
        ((*name).to_owned(), shown)
    };
    Value::Object(REFUSALS.iter().map(refusal).collect())
}

impl Schemas {
    /// All schemas together. Where a type is one thing in requests and another in answers, the former is
    /// called `…Given` everywhere.
    fn merge(mut self, paths: &mut Value) -> Map<String, Value> {
        let taken = self.taken.take_definitions(true);
        let mut all = self.given.take_definitions(true);
        let differ = |(name, schema): &(&String, &Value)| {
            all.get(*name).is_some_and(|given| given != *schema)
        };
        // What refers to something that has another name is another thing, too.
        let mut renamed: BTreeSet<String> = taken
            .iter()
            .filter(differ)
            .map(|(name, _)| name.clone())
            .collect();
        loop {
            let refers = |schema: &Value| {
                let text = schema.to_string();
                renamed
                    .iter()
                    .any(|name| text.contains(&format!("\"{SCHEMAS}{name}\"")))
            };
            let more: Vec<String> = taken
                .iter()
                .filter(|(name, schema)| {
                    !renamed.contains(*name) && all.contains_key(*name) && refers(schema)
                })
                .map(|(name, _)| name.clone())
                .collect();
            if more.is_empty() {
                break;
            }
            renamed.extend(more);
        }
        for (name, mut schema) in taken {
            rename(&mut schema, &renamed);
            let name = match renamed.contains(&name) {
                true => format!("{name}Given"),
                false => name,
            };
            all.insert(name, schema);
        }
        for operations in paths.as_object_mut().into_iter().flat_map(Map::values_mut) {
            for operation in operations
                .as_object_mut()
                .into_iter()
                .flat_map(Map::values_mut)
            {
                for part in ["requestBody", "parameters"] {
                    if let Some(part) = operation.get_mut(part) {
                        rename(part, &renamed);
                    }
                }
            }
        }
        all
    }
}

fn rename(schema: &mut Value, renamed: &BTreeSet<String>) {
    match schema {
        Value::Array(items) => items.iter_mut().for_each(|item| rename(item, renamed)),
        Value::Object(object) => {
            if let Some(Value::String(reference)) = object.get_mut("$ref")
                && let Some(name) = reference.strip_prefix(SCHEMAS)
                && renamed.contains(name)
            {
                reference.push_str("Given");
            }
            object.values_mut().for_each(|value| rename(value, renamed));
        }
        _ => {}
    }
}

/// Descriptions come from comments in the code, where names can be links.
fn plain_descriptions(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(plain_descriptions),
        Value::Object(object) => {
            if let Some(Value::String(text)) = object.get_mut("description") {
                *text = text
                    .replace("[`", "`")
                    .replace("`]", "`")
                    .replace("crate::", "");
            }
            object.values_mut().for_each(plain_descriptions);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_in_a_path_is_explained() {
        let places = ROUTES.iter().flat_map(|route| places_of(route.path));
        for place in places {
            let known = PLACES.iter().any(|(known, _)| *known == place);
            assert!(known, "PLACES lacks {place}");
        }
    }

    #[test]
    fn every_route_says_what_it_gives_and_has_an_id_of_its_own() {
        let mut ids = BTreeSet::new();
        for route in ROUTES {
            let operation = (route.handler)().operation;
            let (method, path) = (route.method, route.path);
            assert!(!operation.answers.is_empty(), "{method} {path}");
            assert!(ids.insert(operation.id), "{method} {path}");
        }
    }
}
