//! A flow of 500 stages and 1,000 edges, over each of which something passes all the time.

use serde_json::{Map, Value, json};

/// Its name.
pub const FLOW: &str = "wide";
/// A stage in its middle.
pub const STAGE: &str = "s7-12";
/// How many stages it has.
pub const STAGES: usize = ROWS * COLUMNS;
/// How many edges it has: two from each stage.
pub const EDGES: usize = STAGES * 2;

const ROWS: usize = 20;
const COLUMNS: usize = 25;
/// Events of one generator.
const PER_SECOND: u32 = 20;

/// Rows of filters. Each sends half of its events on in its own row, and half to the next one, so that no event becomes two.
pub(super) fn document() -> Value {
    let stages: Map<String, Value> = (0..ROWS)
        .flat_map(|row| (0..COLUMNS).map(move |column| (name(row, column), stage(row, column))))
        .collect();
    json!({ "flow": FLOW, "delivery": "at-most-once", "stages": stages })
}

fn name(row: usize, column: usize) -> String {
    format!("s{row}-{column}")
}

fn stage(row: usize, column: usize) -> Value {
    let next = |row: usize| match column + 1 {
        COLUMNS => format!("topic:{FLOW}-{row}"),
        column => name(row % ROWS, column),
    };
    let (own, other) = (next(row), next(row + 1));
    match column {
        0 => json!({
            "plugin": "generator",
            "parameters": { "per_second": PER_SECOND, "event": "{'n': n, 'random': random}" },
            "outputs": { "out": [own, other] },
        }),
        _ => json!({
            "plugin": "filter",
            "parameters": { "where": format!("int(event.random) / {column} % 2 == 0") },
            "outputs": { "out": own, "rejected": other },
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_has_as_many_stages_and_edges_as_it_says() {
        let document = document();
        let stages = document["stages"].as_object().expect("a table");
        assert_eq!((stages.len(), STAGES), (500, 500));
        assert!(stages.contains_key(STAGE));
        let count = |target: &Value| target.as_array().map_or(1, Vec::len);
        let edges = stages.values().flat_map(|stage| {
            let outputs = stage["outputs"].as_object().expect("a table");
            outputs.values().map(count)
        });
        assert_eq!((edges.sum::<usize>(), EDGES), (1_000, 1_000));
    }
}
