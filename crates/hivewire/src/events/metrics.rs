//! How busy stages and queues are, once a second while somebody listens: only what has changed.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::event::{Event, kind};
use crate::rest::Running;

/// How many stages, and how many queues, one event names at most.
const ENTRIES_MAX: usize = 500;

/// What was told last.
#[derive(Default)]
pub(super) struct Numbers {
    stages: HashMap<String, (f64, u64)>,
    queues: HashMap<String, u64>,
}

impl Numbers {
    /// What has changed since the last time, or everything; none if nothing has.
    pub fn changed(&mut self, running: &Arc<Running>, everything: bool) -> Option<Event> {
        if everything {
            *self = Self::default();
        }
        let mut left_out = 0;
        let stages = self.changed_stages(running, &mut left_out);
        let queues = self.changed_queues(running, &mut left_out);
        if stages.is_empty() && queues.is_empty() && !everything {
            return None;
        }
        let event = Event::of(kind::METRICS)
            .with("complete", everything)
            .with("stages", stages)
            .with("queues", queues);
        Some(event.with("left_out", left_out))
    }

    fn changed_stages(&mut self, running: &Running, left_out: &mut u64) -> Map<String, Value> {
        let now: HashMap<String, (f64, u64)> = running
            .runtime()
            .loads()
            .into_iter()
            .map(|load| {
                (
                    load.stage.to_string(),
                    (load.turns_per_second, load.waiting),
                )
            })
            .collect();
        let shown = |value: Option<&(f64, u64)>| match value {
            Some((turns, waiting)) => json!({ "turns_per_second": turns, "waiting": waiting }),
            None => Value::Null,
        };
        changes(&mut self.stages, now, shown, left_out)
    }

    fn changed_queues(&mut self, running: &Running, left_out: &mut u64) -> Map<String, Value> {
        let Some(broker) = &running.broker else {
            return Map::new();
        };
        let queues = broker.queues().into_iter();
        let now = queues.map(|(name, stats)| (name.to_string(), stats.waiting as u64));
        let shown = |value: Option<&u64>| match value {
            Some(waiting) => json!({ "waiting": waiting }),
            None => Value::Null,
        };
        changes(&mut self.queues, now.collect(), shown, left_out)
    }
}

/// What differs: as it is now, or null if it is gone. What there is no room for stays as it was, so that
/// it comes the next time.
fn changes<T: PartialEq + Clone>(
    before: &mut HashMap<String, T>,
    now: HashMap<String, T>,
    shown: impl Fn(Option<&T>) -> Value,
    left_out: &mut u64,
) -> Map<String, Value> {
    let mut changes = Map::new();
    let gone: Vec<String> = before
        .keys()
        .filter(|name| !now.contains_key(*name))
        .cloned()
        .collect();
    let changed = now
        .iter()
        .filter(|(name, value)| before.get(*name) != Some(value));
    let changed = changed.map(|(name, value)| (name.clone(), Some(value.clone())));
    let all: Vec<_> = gone
        .into_iter()
        .map(|name| (name, None))
        .chain(changed)
        .collect();
    for (name, value) in all {
        if changes.len() == ENTRIES_MAX {
            *left_out += 1;
            continue;
        }
        changes.insert(name.clone(), shown(value.as_ref()));
        match value {
            Some(value) => before.insert(name, value),
            None => before.remove(&name),
        };
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_has_changed_is_told_and_the_rest_comes_later() {
        let mut before = HashMap::new();
        let mut left_out = 0;
        let mut told = |now: &[(&str, u64)]| {
            let now = now.iter().map(|(name, value)| ((*name).to_owned(), *value));
            let shown = |value: Option<&u64>| json!(value);
            changes(&mut before, now.collect(), shown, &mut left_out)
        };
        assert_eq!(
            json!(told(&[("a", 1), ("b", 2)])),
            json!({ "a": 1, "b": 2 })
        );
        assert_eq!(json!(told(&[("a", 1), ("b", 3)])), json!({ "b": 3 }));
        assert_eq!(json!(told(&[("b", 3)])), json!({ "a": null }));
        let many: HashMap<String, u64> = (0..700).map(|n| (format!("q{n}"), 1)).collect();
        let mut told = || changes(&mut before, many.clone(), |v| json!(v), &mut left_out).len();
        assert_eq!([told(), told(), told()], [500, 201, 0]);
    }
}
