//! What nodes see, each for itself, put together.

use std::collections::BTreeMap;

use control::alerts::{Alert, AlertState, Labels};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::delivery::ReceiverShown;

/// What one node sees, and whom it tells.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct AlertsSeen {
    pub alerts: Vec<Alert>,
    /// How many more are wrong than are kept.
    pub left_out: usize,
    pub receivers: Vec<ReceiverShown>,
}

/// One thing that is wrong, and who sees it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct AlertShown {
    #[serde(flatten)]
    pub alert: Alert,
    /// The nodes that see it.
    pub nodes: Vec<String>,
}

/// How it went with a receiver, and which node tells it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct NodeReceiver {
    pub node: String,
    #[serde(flatten)]
    pub receiver: ReceiverShown,
}

/// What several nodes see of the same is one entry: as the one has it for which it is worst, since the first of them saw it, told when
/// the last of them told it.
pub(crate) fn together(seen: &[(String, AlertsSeen)]) -> Vec<AlertShown> {
    let mut all: BTreeMap<(String, Labels, String), AlertShown> = BTreeMap::new();
    for (node, alert) in seen
        .iter()
        .flat_map(|(node, seen)| seen.alerts.iter().map(move |alert| (node, alert)))
    {
        let same = (
            alert.rule.clone(),
            alert.labels.clone(),
            alert.detail.clone(),
        );
        let shown = all.entry(same).or_insert_with(|| AlertShown {
            alert: alert.clone(),
            nodes: Vec::new(),
        });
        shown.nodes.push(node.clone());
        add(&mut shown.alert, alert);
    }
    all.into_values().collect()
}

fn add(known: &mut Alert, other: &Alert) {
    if urgency(other.state) > urgency(known.state) {
        (known.state, known.silence) = (other.state, other.silence);
    }
    known.since_ms = known.since_ms.min(other.since_ms);
    known.told_at_ms = known.told_at_ms.max(other.told_at_ms);
    let fired = [known.fired_at_ms, other.fired_at_ms].into_iter().flatten();
    known.fired_at_ms = fired.min();
    if known.told_by.is_none() {
        known.told_by.clone_from(&other.told_by);
    }
}

fn urgency(state: AlertState) -> u8 {
    match state {
        AlertState::Recovered => 0,
        AlertState::Silenced => 1,
        AlertState::Pending => 2,
        AlertState::Firing => 3,
    }
}

#[cfg(test)]
mod tests {
    use control::alerts::Severity;

    use super::*;

    fn alert(label: &str, detail: &str, state: AlertState, since_ms: u64) -> Alert {
        Alert {
            rule: "node-gone".to_owned(),
            severity: Severity::Warning,
            state,
            labels: Labels::from([("node".to_owned(), label.to_owned())]),
            value: 1.0,
            detail: detail.to_owned(),
            since_ms,
            fired_at_ms: (state == AlertState::Firing).then_some(since_ms + 1),
            told_at_ms: None,
            told_by: (state == AlertState::Firing).then(|| "a".to_owned()),
            recovered_at_ms: None,
            silence: None,
        }
    }

    fn seen(node: &str, alerts: Vec<Alert>) -> (String, AlertsSeen) {
        let seen = AlertsSeen {
            alerts,
            left_out: 0,
            receivers: Vec::new(),
        };
        (node.to_owned(), seen)
    }

    #[test]
    fn what_several_see_is_one_and_what_differs_is_not() {
        let all = [
            seen("a", vec![alert("x", "it is gone", AlertState::Pending, 20)]),
            seen(
                "b",
                vec![
                    alert("x", "it is gone", AlertState::Firing, 10),
                    alert("x", "something else", AlertState::Pending, 30),
                    alert("y", "it is gone", AlertState::Pending, 40),
                ],
            ),
        ];
        let shown = together(&all);
        let nodes: Vec<String> = shown.iter().map(|one| one.nodes.join(",")).collect();
        assert_eq!(nodes, ["a,b", "b", "b"]);
        let first = &shown[0].alert;
        assert_eq!((first.state, first.since_ms), (AlertState::Firing, 10));
        assert_eq!(first.fired_at_ms, Some(11));
        assert_eq!(first.told_by.as_deref(), Some("a"));
        assert_eq!(shown[2].alert.labels["node"], "y");
    }
}
