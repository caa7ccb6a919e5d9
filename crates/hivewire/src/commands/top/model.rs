//! What `hivewire top` knows: the stages as the node tells them, and how they did in the last minute.

use std::collections::{HashMap, VecDeque};

use serde_json::Value;

use super::super::output::printable;
use super::super::ps;

/// Of so many looks rates are kept.
pub(super) const LOOKS_KEPT: usize = 60;
const NAME_CHARACTERS_MAX: usize = 60;
const TEXT_CHARACTERS_MAX: usize = 2_000;

pub(super) const TITLES: [&str; 9] = [
    "stage", "state", "workers", "in/s", "done/s", "p50 ms", "p99 ms", "waiting", "dead",
];
/// The columns with numbers.
pub(super) const NUMBERS: [usize; 7] = [2, 3, 4, 5, 6, 7, 8];

/// The stages, in the order in which they are shown.
#[derive(Default)]
pub(super) struct Model {
    rows: Vec<Row>,
    rates: HashMap<String, VecDeque<u64>>,
    selected: Option<String>,
    sort: Sort,
    /// Why the node did not answer, if it did not.
    pub trouble: Option<String>,
}

/// One stage.
pub(super) struct Row {
    pub stage: String,
    pub state: String,
    /// Why it stands still, if it does.
    pub stands: Option<String>,
    workers: u64,
    bounds: Option<(u64, u64)>,
    arrivals_per_second: Option<f64>,
    pub done_per_second: f64,
    latency: Option<(f64, f64)>,
    pub waiting: u64,
    pub dead: u64,
    /// What it decided last about its size, the newest first.
    pub decisions: Vec<String>,
}

/// What stands at the top.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Sort {
    /// By name.
    #[default]
    Name,
    /// What does most.
    Rate,
    /// Where most waits.
    Waiting,
    /// Where it takes longest.
    Latency,
}

impl Sort {
    pub fn name(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Rate => "done/s",
            Self::Waiting => "waiting",
            Self::Latency => "p99",
        }
    }

    fn next(self) -> Self {
        match self {
            Self::Name => Self::Rate,
            Self::Rate => Self::Waiting,
            Self::Waiting => Self::Latency,
            Self::Latency => Self::Name,
        }
    }
}

impl Model {
    /// Takes over what the node says.
    pub fn update(&mut self, answer: &Value) {
        let flows = answer["flows"].as_array().into_iter().flatten();
        let stages = flows.flat_map(|flow| flow["stages"].as_array().into_iter().flatten());
        self.rows = stages.map(Row::read).collect();
        self.trouble = None;
        let known: Vec<&str> = self.rows.iter().map(|row| row.stage.as_str()).collect();
        self.rates
            .retain(|stage, _| known.contains(&stage.as_str()));
        for row in &self.rows {
            let rates = self.rates.entry(row.stage.clone()).or_default();
            if rates.len() == LOOKS_KEPT {
                rates.pop_front();
            }
            rates.push_back(row.done_per_second.round() as u64);
        }
        self.order();
    }

    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// The rates of a stage, the oldest first.
    pub fn rates(&self, stage: &str) -> Vec<u64> {
        let rates = self.rates.get(stage);
        rates.map_or_else(Vec::new, |rates| rates.iter().copied().collect())
    }

    pub fn sort(&self) -> Sort {
        self.sort
    }

    pub fn sort_next(&mut self) {
        self.sort = self.sort.next();
        self.order();
    }

    /// The place of the stage that is looked at.
    pub fn selected(&self) -> Option<usize> {
        let selected = self.selected.as_ref()?;
        let at = self.rows.iter().position(|row| row.stage == *selected);
        at.or(if self.rows.is_empty() { None } else { Some(0) })
    }

    /// Looks at another stage, so many rows further.
    pub fn select(&mut self, by: isize) {
        let last = self.rows.len().saturating_sub(1);
        let at = match self.selected() {
            Some(at) => at.saturating_add_signed(by).min(last),
            None => 0,
        };
        self.selected = self.rows.get(at).map(|row| row.stage.clone());
    }

    fn order(&mut self) {
        let most_first = |a: f64, b: f64| b.total_cmp(&a);
        let sort = self.sort;
        self.rows.sort_by(|a, b| {
            let by_sort = match sort {
                Sort::Name => std::cmp::Ordering::Equal,
                Sort::Rate => most_first(a.done_per_second, b.done_per_second),
                Sort::Waiting => b.waiting.cmp(&a.waiting),
                Sort::Latency => most_first(a.p99_ms(), b.p99_ms()),
            };
            by_sort.then_with(|| a.stage.cmp(&b.stage))
        });
    }
}

impl Row {
    fn read(stage: &Value) -> Self {
        let address = &stage["spec"]["address"];
        let scaling = &stage["scaling"];
        let number = |value: &Value, key: &str| value[key].as_u64().unwrap_or_default();
        let rate = |value: &Value, key: &str| value[key].as_f64().unwrap_or_default();
        let latency = &stage["latency"];
        let is_scaled = scaling.is_object();
        let decisions = scaling["decisions"].as_array().into_iter().flatten();
        let told = |decision: &Value| {
            let text = decision["text"].as_str().unwrap_or_default();
            printable(text, TEXT_CHARACTERS_MAX)
        };
        Self {
            stage: printable(address.as_str().unwrap_or_default(), NAME_CHARACTERS_MAX),
            state: printable(ps::state(stage), NAME_CHARACTERS_MAX),
            stands: stage["stands"]
                .as_str()
                .map(|why| printable(why, TEXT_CHARACTERS_MAX)),
            workers: number(stage, "workers_count"),
            bounds: is_scaled.then(|| {
                (
                    number(scaling, "workers_min"),
                    number(scaling, "workers_max"),
                )
            }),
            arrivals_per_second: is_scaled.then(|| rate(scaling, "arrivals_per_second")),
            done_per_second: rate(stage, "turns_per_second"),
            latency: latency
                .is_object()
                .then(|| (rate(latency, "p50_ms"), rate(latency, "p99_ms"))),
            waiting: match is_scaled {
                true => number(scaling, "depth"),
                false => number(stage, "waiting"),
            },
            dead: number(stage, "dead"),
            decisions: decisions.rev().map(told).collect(),
        }
    }

    /// What stands in each column.
    pub fn cells(&self) -> Vec<String> {
        let ms = |ms: Option<f64>| ms.map_or_else(|| "-".to_owned(), |ms| format!("{ms:.1}"));
        let workers = match self.bounds {
            Some((min, max)) => format!("{} of {min}-{max}", self.workers),
            None => self.workers.to_string(),
        };
        let arrivals = self.arrivals_per_second;
        vec![
            self.stage.clone(),
            self.state.clone(),
            workers,
            arrivals.map_or_else(|| "-".to_owned(), |rate| format!("{rate:.0}")),
            format!("{:.0}", self.done_per_second),
            ms(self.latency.map(|(p50, _)| p50)),
            ms(self.latency.map(|(_, p99)| p99)),
            self.waiting.to_string(),
            self.dead.to_string(),
        ]
    }

    /// Whether it finds its number of workers by itself.
    pub fn is_scaled(&self) -> bool {
        self.bounds.is_some()
    }

    fn p99_ms(&self) -> f64 {
        self.latency.map_or(0.0, |(_, p99)| p99)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use serde_json::json;

    /// Two stages, one of which finds its size by itself.
    pub(in crate::commands::top) fn answer() -> Value {
        json!({ "flows": [{ "flow": "shop", "stages": [
            {
                "spec": { "address": "shop/bills" }, "state": "running", "workers_count": 1,
                "turns_per_second": 20.4, "waiting": 3, "dead": 1,
            },
            {
                "spec": { "address": "shop/orders" }, "state": "running", "workers_count": 4,
                "turns_per_second": 1234.0, "waiting": 0, "dead": 0,
                "latency": { "p50_ms": 1.25, "p99_ms": 80.0 },
                "scaling": {
                    "workers_min": 1, "workers_max": 8, "arrivals_per_second": 1300.0, "depth": 17,
                    "decisions": [{ "text": "It grew from 1 to 2 workers." }, { "text": "It grew from 2 to 4 workers." }],
                },
            },
        ]}]})
    }

    #[test]
    fn rows_show_what_the_node_says() {
        let mut model = Model::default();
        model.update(&answer());
        let cells: Vec<Vec<String>> = model.rows().iter().map(Row::cells).collect();
        assert_eq!(
            cells[0],
            ["shop/bills", "running", "1", "-", "20", "-", "-", "3", "1"]
        );
        assert_eq!(
            cells[1],
            [
                "shop/orders",
                "running",
                "4 of 1-8",
                "1300",
                "1234",
                "1.2",
                "80.0",
                "17",
                "0"
            ]
        );
        assert_eq!(model.rows()[1].decisions[0], "It grew from 2 to 4 workers.");
    }

    #[test]
    fn who_is_looked_at_stays_so_in_another_order() {
        let mut model = Model::default();
        model.update(&answer());
        model.select(0);
        assert_eq!(model.selected(), Some(0));
        model.sort_next();
        assert_eq!((model.sort(), model.selected()), (Sort::Rate, Some(1)));
        model.select(-5);
        assert_eq!(model.selected(), Some(0));
        for _ in 0..100 {
            model.update(&answer());
        }
        assert_eq!(model.rates("shop/orders").len(), LOOKS_KEPT);
        model.update(&json!({ "flows": [] }));
        assert_eq!(
            (model.selected(), model.rates("shop/orders").len()),
            (None, 0)
        );
    }
}
