//! From what was observed to what is wrong, rule by rule.

use std::time::Duration;

use kernel::Timestamp;

use super::growth::Growths;
use super::observation::{JournalSeen, Labels, NodesSeen, Observation};
use super::rule::{Condition, Rule, fits};

/// Queues of Hivewire's own begin so; a pattern means them only if it begins so, too.
const RESERVED_QUEUES: &str = "hivewire.";

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Finding {
    pub labels: Labels,
    pub value: f64,
    pub detail: String,
    /// Whether all nodes see it, so that only one of them has to tell.
    pub is_shared: bool,
}

/// What came of looking at one rule.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Look {
    pub findings: Vec<Finding>,
    /// Not everything could be seen: what was wrong before may still be.
    pub is_partial: bool,
}

impl Look {
    fn all(findings: Vec<Finding>) -> Self {
        Self {
            findings,
            is_partial: false,
        }
    }

    fn unknown() -> Self {
        Self {
            findings: Vec::new(),
            is_partial: true,
        }
    }
}

fn finding(labels: &[(&str, &str)], value: f64, detail: String) -> Finding {
    let labels = labels.iter();
    Finding {
        labels: labels
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect(),
        value,
        detail,
        is_shared: false,
    }
}

/// Looks at one rule. `growths` are those of the rule alone.
pub(super) fn look(rule: &Rule, growths: &mut Growths, seen: &Observation, now: Timestamp) -> Look {
    match &rule.condition {
        Condition::NodeGone => nodes(&seen.nodes),
        Condition::StageRestarts {
            more_than,
            within_seconds,
        } => restarts(growths, seen, *more_than, *within_seconds, now),
        Condition::StageFailed => failed_stages(seen),
        Condition::StageStands => standing_stages(seen),
        Condition::DeadLetters {
            more_than,
            within_seconds,
        } => dead_letters(growths, seen, *more_than, *within_seconds, now),
        Condition::QueueAge {
            queues,
            older_than_seconds,
        } => old_queues(seen, queues, *older_than_seconds),
        Condition::Disk { free_percent_min } => disk(seen, *free_percent_min),
        Condition::Journal => journal(seen),
        Condition::Expression { .. } => expression(seen, &rule.name),
    }
}

fn nodes(seen: &NodesSeen) -> Look {
    match seen {
        NodesSeen::Alone => Look::default(),
        NodesSeen::CutOff { me } => {
            let detail = format!("{me} is cut off: it no longer hears itself over the bus");
            Look {
                findings: vec![finding(&[("node", me)], 1.0, detail)],
                is_partial: true,
            }
        }
        NodesSeen::Heard { nodes, .. } => {
            let gone = nodes.iter().filter(|node| !node.lives && !node.leaves);
            let findings = gone.map(|node| {
                let detail = format!("{} sends no heartbeats and was not told to stop", node.name);
                Finding {
                    is_shared: true,
                    ..finding(&[("node", &node.name)], 1.0, detail)
                }
            });
            Look::all(findings.collect())
        }
    }
}

fn restarts(
    growths: &mut Growths,
    seen: &Observation,
    more_than: u64,
    within_seconds: u64,
    now: Timestamp,
) -> Look {
    let counters = seen.stages.iter();
    let counters = counters.map(|stage| (stage.address.as_str(), stage.restarts));
    let grown = growths.measure(counters, Duration::from_secs(within_seconds), now);
    let findings = grown.into_iter().filter(|(_, growth)| *growth > more_than);
    let findings = findings.map(|(stage, growth)| {
        let detail =
            format!("workers of {stage} were restarted {growth} times within {within_seconds} s");
        finding(&[("stage", stage)], growth as f64, detail)
    });
    Look::all(findings.collect())
}

fn failed_stages(seen: &Observation) -> Look {
    let findings = seen.stages.iter().filter_map(|stage| {
        let failure = stage.failure.as_ref()?;
        let detail = format!("{} does not run: {failure}", stage.address);
        Some(finding(&[("stage", &stage.address)], 1.0, detail))
    });
    Look::all(findings.collect())
}

fn standing_stages(seen: &Observation) -> Look {
    let findings = seen.stages.iter().filter_map(|stage| {
        let why = stage.stands.as_ref()?;
        let detail = format!("{} stands still: {why}", stage.address);
        Some(finding(&[("stage", &stage.address)], 1.0, detail))
    });
    Look::all(findings.collect())
}

fn dead_letters(
    growths: &mut Growths,
    seen: &Observation,
    more_than: u64,
    within_seconds: u64,
    now: Timestamp,
) -> Look {
    let counters = [("", seen.dead_letters)].into_iter();
    let grown = growths.measure(counters, Duration::from_secs(within_seconds), now);
    let findings = grown.into_iter().filter(|(_, growth)| *growth > more_than);
    let findings = findings.map(|(_, growth)| {
        let detail =
            format!("{growth} messages went to the dead letters within {within_seconds} s");
        finding(&[], growth as f64, detail)
    });
    Look::all(findings.collect())
}

fn old_queues(seen: &Observation, pattern: &str, older_than_seconds: u64) -> Look {
    let is_meant = |name: &str| {
        let is_reserved = name.starts_with(RESERVED_QUEUES);
        fits(pattern, name) && (!is_reserved || pattern.starts_with(RESERVED_QUEUES))
    };
    let old = seen.queues.iter().filter(|queue| {
        is_meant(&queue.name) && queue.oldest_age_ms > older_than_seconds.saturating_mul(1_000)
    });
    let findings = old.map(|queue| {
        let seconds = queue.oldest_age_ms / 1_000;
        let detail = format!(
            "the oldest message of {} has waited for {seconds} s",
            queue.name
        );
        finding(&[("queue", &queue.name)], seconds as f64, detail)
    });
    Look::all(findings.collect())
}

fn disk(seen: &Observation, free_percent_min: f64) -> Look {
    let Some(free) = seen.disk_free_percent else {
        return Look::unknown();
    };
    if free >= free_percent_min {
        return Look::default();
    }
    let detail = format!("only {free:.1} % of the disk of the data folder are free");
    Look::all(vec![finding(&[], free, detail)])
}

fn journal(seen: &Observation) -> Look {
    let detail = match &seen.journal {
        None | Some(JournalSeen::Well) => return Look::default(),
        Some(JournalSeen::Full) => {
            "the journal is full: nothing durable is taken in until the disk has room".to_owned()
        }
        Some(JournalSeen::Failed(reason)) => {
            format!("the journal has failed ({reason}): look at the disk and start the node again")
        }
    };
    Look::all(vec![finding(&[], 1.0, detail)])
}

fn expression(seen: &Observation, rule: &str) -> Look {
    let Some(matches) = seen.expressions.get(rule) else {
        return Look::unknown();
    };
    let findings = matches.iter().map(|one| Finding {
        labels: one.labels.clone(),
        value: one.value,
        detail: one.detail.clone(),
        is_shared: false,
    });
    Look::all(findings.collect())
}

#[cfg(test)]
mod tests {
    use super::super::observation::{Match, NodeSeen, QueueSeen, StageSeen};
    use super::super::rule::Severity;
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_micros(1_000_000 * (1_000 + seconds))
    }

    fn rule(condition: Condition) -> Rule {
        Rule {
            name: "r".to_owned(),
            severity: Severity::Warning,
            condition,
            for_seconds: 0,
        }
    }

    /// The values of the given label of what is found.
    fn found(condition: Condition, seen: &Observation, label: &str) -> Vec<String> {
        let looked = look(&rule(condition), &mut Growths::default(), seen, at(0));
        let labels = looked.findings.into_iter().map(|one| one.labels);
        labels
            .map(|labels| labels.get(label).cloned().unwrap_or_default())
            .collect()
    }

    fn node(name: &str, lives: bool, leaves: bool) -> NodeSeen {
        NodeSeen {
            name: name.to_owned(),
            lives,
            leaves,
        }
    }

    #[test]
    fn only_nodes_that_were_not_told_to_stop_are_gone() {
        let nodes = vec![
            node("a", true, false),
            node("b", false, false),
            node("c", false, true),
        ];
        let heard = NodesSeen::Heard {
            me: "a".to_owned(),
            nodes,
        };
        let seen = Observation {
            nodes: heard,
            ..Observation::default()
        };
        assert_eq!(found(Condition::NodeGone, &seen, "node"), ["b"]);
        let alone = Observation::default();
        assert!(found(Condition::NodeGone, &alone, "node").is_empty());
    }

    #[test]
    fn a_node_that_is_cut_off_blames_itself_and_nobody_else() {
        let me = "a".to_owned();
        let looked = super::nodes(&NodesSeen::CutOff { me });
        assert!(looked.is_partial && !looked.findings[0].is_shared);
        assert_eq!(looked.findings[0].labels["node"], "a");
    }

    #[test]
    fn stages_that_restart_too_often_and_those_that_failed_or_stand() {
        let stage = |address: &str, restarts, failure: Option<&str>| StageSeen {
            address: address.to_owned(),
            restarts,
            failure: failure.map(str::to_owned),
            stands: (address == "f/c").then(|| "no room".to_owned()),
        };
        let mut seen = Observation {
            stages: vec![
                stage("f/a", 5, None),
                stage("f/b", 5, Some("why")),
                stage("f/c", 0, None),
            ],
            ..Observation::default()
        };
        assert_eq!(found(Condition::StageFailed, &seen, "stage"), ["f/b"]);
        assert_eq!(found(Condition::StageStands, &seen, "stage"), ["f/c"]);
        let restarting = rule(Condition::StageRestarts {
            more_than: 3,
            within_seconds: 60,
        });
        let mut growths = Growths::default();
        assert_eq!(
            look(&restarting, &mut growths, &seen, at(0)),
            Look::default()
        );
        seen.stages[0].restarts = 9;
        seen.stages[1].restarts = 8;
        let looked = look(&restarting, &mut growths, &seen, at(1));
        assert_eq!(looked.findings.len(), 1);
        assert_eq!(looked.findings[0].labels["stage"], "f/a");
        assert_eq!(looked.findings[0].value, 4.0);
        let later = look(&restarting, &mut growths, &seen, at(200));
        assert!(later.findings.is_empty());
    }

    #[test]
    fn dead_letters_are_those_that_are_new() {
        let growing = rule(Condition::DeadLetters {
            more_than: 0,
            within_seconds: 10,
        });
        let mut growths = Growths::default();
        let mut seen = Observation {
            dead_letters: 7,
            ..Observation::default()
        };
        assert!(
            look(&growing, &mut growths, &seen, at(0))
                .findings
                .is_empty()
        );
        seen.dead_letters = 8;
        let looked = look(&growing, &mut growths, &seen, at(1));
        assert_eq!(looked.findings[0].value, 1.0);
    }

    #[test]
    fn queues_are_chosen_by_name_and_our_own_only_on_purpose() {
        let queue = |name: &str, oldest_age_ms| QueueSeen {
            name: name.to_owned(),
            oldest_age_ms,
        };
        let seen = Observation {
            queues: vec![
                queue("orders.a", 6_000),
                queue("orders.b", 5_000),
                queue("other", 6_000),
                queue("hivewire.dead", 9_000),
            ],
            ..Observation::default()
        };
        let old = |queues: &str| {
            let condition = Condition::QueueAge {
                queues: queues.to_owned(),
                older_than_seconds: 5,
            };
            found(condition, &seen, "queue")
        };
        assert_eq!(old("orders.*"), ["orders.a"]);
        assert_eq!(old("*"), ["orders.a", "other"]);
        assert_eq!(old("other"), ["other"]);
        assert_eq!(old("hivewire.*"), ["hivewire.dead"]);
    }

    #[test]
    fn disk_journal_and_expressions() {
        let disk = Condition::Disk {
            free_percent_min: 10.0,
        };
        let mut seen = Observation::default();
        let unknown = look(&rule(disk.clone()), &mut Growths::default(), &seen, at(0));
        assert!(unknown.is_partial && unknown.findings.is_empty());
        seen.disk_free_percent = Some(10.0);
        assert!(found(disk.clone(), &seen, "").is_empty());
        seen.disk_free_percent = Some(9.9);
        assert_eq!(found(disk, &seen, "").len(), 1);
        for (journal, expected) in [
            (None, 0),
            (Some(JournalSeen::Well), 0),
            (Some(JournalSeen::Full), 1),
            (Some(JournalSeen::Failed("broken".to_owned())), 1),
        ] {
            seen.journal = journal;
            assert_eq!(found(Condition::Journal, &seen, "").len(), expected);
        }
        let expression = rule(Condition::Expression {
            expression: "x > 1".to_owned(),
        });
        assert!(look(&expression, &mut Growths::default(), &seen, at(0)).is_partial);
        let one = Match {
            labels: Labels::from([("queue".to_owned(), "q".to_owned())]),
            value: 2.0,
            detail: "x = 2".to_owned(),
        };
        seen.expressions.insert("r".to_owned(), vec![one]);
        assert_eq!(found(expression.condition, &seen, "queue"), ["q"]);
    }
}
