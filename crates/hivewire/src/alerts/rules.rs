//! The rules that come with Hivewire, and how those of the configuration change them.

use control::alerts::{Condition, Rule, Severity};

use super::error::AlertError;
use super::settings::{AlertSettings, RuleKind, RuleSettings};

const RULES_MAX: usize = 100;
const NAME_BYTES_MAX: usize = 64;
const SECONDS_MAX: u64 = 30 * 24 * 3_600;

/// The rules that come with Hivewire. Each is named after its kind and says everything that its kind
/// needs.
fn built_in() -> Vec<RuleSettings> {
    let rule = |name: &str, kind, severity, for_seconds| RuleSettings {
        kind: Some(kind),
        severity: Some(severity),
        for_seconds: Some(for_seconds),
        ..RuleSettings::named(name)
    };
    use Severity::{Critical, Warning};
    vec![
        rule("node-gone", RuleKind::NodeGone, Critical, 10),
        RuleSettings {
            more_than: Some(10),
            within_seconds: Some(300),
            ..rule("stage-restarts", RuleKind::StageRestarts, Warning, 0)
        },
        rule("stage-failed", RuleKind::StageFailed, Critical, 0),
        rule("stage-stands", RuleKind::StageStands, Critical, 0),
        RuleSettings {
            more_than: Some(10),
            within_seconds: Some(600),
            ..rule("dead-letters", RuleKind::DeadLetters, Warning, 0)
        },
        RuleSettings {
            queues: Some("*".to_owned()),
            older_than_seconds: Some(3_600),
            ..rule("queue-age", RuleKind::QueueAge, Warning, 60)
        },
        RuleSettings {
            free_percent_min: Some(10.0),
            ..rule("disk", RuleKind::Disk, Critical, 60)
        },
        rule("journal", RuleKind::Journal, Critical, 0),
    ]
}

/// All rules that hold.
pub(super) fn resolve(settings: &AlertSettings) -> Result<Vec<Rule>, AlertError> {
    let known = built_in();
    let mut written: Vec<RuleSettings> = match settings.built_in {
        true => known.clone(),
        false => Vec::new(),
    };
    let mut names: Vec<&str> = Vec::new();
    for rule in &settings.rules {
        check_name(&rule.name)?;
        if names.contains(&rule.name.as_str()) {
            return Err(wrong(&rule.name, "stands there twice"));
        }
        names.push(&rule.name);
        let merged = merge(rule, &known)?;
        written.retain(|other| other.name != rule.name);
        written.push(merged);
    }
    written.retain(|rule| rule.enabled);
    if written.len() > RULES_MAX {
        return Err(AlertError::Setting {
            key: "rules",
            problem: format!("are more than {RULES_MAX}: that is how many there may be"),
        });
    }
    written.iter().map(rule_of).collect()
}

fn wrong(name: &str, problem: impl Into<String>) -> AlertError {
    AlertError::Rule {
        name: name.to_owned(),
        problem: problem.into(),
    }
}

fn check_name(name: &str) -> Result<(), AlertError> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.bytes().all(is_plain) {
        return Err(wrong(
            name,
            format!("needs another name: 1 to {NAME_BYTES_MAX} of A-Z a-z 0-9 - _ ."),
        ));
    }
    Ok(())
}

/// What the rule does not say is as in the one of its name or of its kind.
fn merge(rule: &RuleSettings, known: &[RuleSettings]) -> Result<RuleSettings, AlertError> {
    let of_name = known.iter().find(|other| other.name == rule.name);
    let kind = rule.kind.or(of_name.and_then(|other| other.kind));
    let Some(kind) = kind else {
        let problem = "needs a `kind`, for none of this name comes with Hivewire";
        return Err(wrong(&rule.name, problem));
    };
    check_keys(rule, kind)?;
    let nothing = RuleSettings::named(&rule.name);
    let base = known.iter().find(|other| other.kind == Some(kind));
    let base = base.unwrap_or(&nothing);
    Ok(RuleSettings {
        name: rule.name.clone(),
        kind: Some(kind),
        enabled: rule.enabled,
        severity: rule.severity.or(base.severity),
        for_seconds: rule.for_seconds.or(base.for_seconds),
        more_than: rule.more_than.or(base.more_than),
        within_seconds: rule.within_seconds.or(base.within_seconds),
        queues: rule.queues.clone().or(base.queues.clone()),
        older_than_seconds: rule.older_than_seconds.or(base.older_than_seconds),
        free_percent_min: rule.free_percent_min.or(base.free_percent_min),
        expression: rule.expression.clone(),
    })
}

/// A key that means nothing for this kind is a mistake.
fn check_keys(rule: &RuleSettings, kind: RuleKind) -> Result<(), AlertError> {
    use RuleKind::{DeadLetters, Disk, Expression, QueueAge, StageRestarts};
    let counts = matches!(kind, StageRestarts | DeadLetters);
    let keys = [
        ("more_than", rule.more_than.is_some(), counts),
        ("within_seconds", rule.within_seconds.is_some(), counts),
        ("queues", rule.queues.is_some(), kind == QueueAge),
        (
            "older_than_seconds",
            rule.older_than_seconds.is_some(),
            kind == QueueAge,
        ),
        (
            "free_percent_min",
            rule.free_percent_min.is_some(),
            kind == Disk,
        ),
        ("expression", rule.expression.is_some(), kind == Expression),
    ];
    match keys.iter().find(|(_, is_given, fits)| *is_given && !fits) {
        Some((key, ..)) => Err(wrong(
            &rule.name,
            format!("says `{key}`, which means nothing for its kind"),
        )),
        None => Ok(()),
    }
}

fn rule_of(rule: &RuleSettings) -> Result<Rule, AlertError> {
    let missing = |key: &str| wrong(&rule.name, format!("needs `{key}`"));
    let kind = rule.kind.ok_or_else(|| missing("kind"))?;
    let more_than = || rule.more_than.ok_or_else(|| missing("more_than"));
    let seconds = |key: &str, value: Option<u64>, least: u64| {
        let value = value.ok_or_else(|| missing(key))?;
        match (least..=SECONDS_MAX).contains(&value) {
            true => Ok(value),
            false => {
                let problem = format!("needs `{key}` between {least} and {SECONDS_MAX}");
                Err(wrong(&rule.name, problem))
            }
        }
    };
    let within = || seconds("within_seconds", rule.within_seconds, 1);
    let condition = match kind {
        RuleKind::NodeGone => Condition::NodeGone,
        RuleKind::StageRestarts => Condition::StageRestarts {
            more_than: more_than()?,
            within_seconds: within()?,
        },
        RuleKind::StageFailed => Condition::StageFailed,
        RuleKind::StageStands => Condition::StageStands,
        RuleKind::DeadLetters => Condition::DeadLetters {
            more_than: more_than()?,
            within_seconds: within()?,
        },
        RuleKind::QueueAge => Condition::QueueAge {
            queues: rule.queues.clone().ok_or_else(|| missing("queues"))?,
            older_than_seconds: seconds("older_than_seconds", rule.older_than_seconds, 0)?,
        },
        RuleKind::Disk => Condition::Disk {
            free_percent_min: percent(rule)?,
        },
        RuleKind::Journal => Condition::Journal,
        RuleKind::Expression => Condition::Expression {
            expression: rule
                .expression
                .clone()
                .ok_or_else(|| missing("expression"))?,
        },
    };
    Ok(Rule {
        name: rule.name.clone(),
        severity: rule.severity.unwrap_or(Severity::Warning),
        condition,
        for_seconds: seconds("for_seconds", Some(rule.for_seconds.unwrap_or(0)), 0)?,
    })
}

fn percent(rule: &RuleSettings) -> Result<f64, AlertError> {
    match rule.free_percent_min {
        Some(percent) if (0.0..=100.0).contains(&percent) => Ok(percent),
        _ => Err(wrong(
            &rule.name,
            "needs `free_percent_min` between 0 and 100",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(text: &str) -> Result<Vec<Rule>, String> {
        let settings: AlertSettings = toml::from_str(text).unwrap();
        resolve(&settings).map_err(|error| error.to_string())
    }

    fn find(rules: &[Rule], name: &str) -> Option<Rule> {
        rules.iter().find(|rule| rule.name == name).cloned()
    }

    #[test]
    fn without_a_word_the_rules_that_come_with_hivewire_hold() {
        let rules = resolved("").unwrap();
        assert_eq!(rules.len(), built_in().len());
        assert_eq!(resolved("built_in = false").unwrap(), []);
    }

    #[test]
    fn a_rule_of_the_same_name_changes_what_it_says() {
        let text = "[[rules]]\nname = \"queue-age\"\nolder_than_seconds = 5\n\
                    [[rules]]\nname = \"disk\"\nenabled = false\n";
        let rules = resolved(text).unwrap();
        let condition = Condition::QueueAge {
            queues: "*".to_owned(),
            older_than_seconds: 5,
        };
        let changed = find(&rules, "queue-age").unwrap();
        assert_eq!((changed.condition, changed.for_seconds), (condition, 60));
        assert_eq!(find(&rules, "disk"), None);
        assert_eq!(rules.len(), built_in().len() - 1);
    }

    #[test]
    fn a_rule_of_another_name_stands_beside_those() {
        let text = "[[rules]]\nname = \"slow\"\nkind = \"expression\"\nexpression = \"a > 1\"\n\
                    severity = \"critical\"\nfor_seconds = 7\n\
                    [[rules]]\nname = \"orders\"\nkind = \"queue-age\"\nqueues = \"orders.*\"\n";
        let rules = resolved(text).unwrap();
        let slow = find(&rules, "slow").unwrap();
        assert_eq!((slow.severity, slow.for_seconds), (Severity::Critical, 7));
        let condition = Condition::QueueAge {
            queues: "orders.*".to_owned(),
            older_than_seconds: 3_600,
        };
        assert_eq!(find(&rules, "orders").unwrap().condition, condition);
        assert_eq!(rules.len(), built_in().len() + 2);
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_the_reason() {
        for (rule, expected) in [
            ("name = \"a b\"", "needs another name"),
            ("name = \"new\"", "needs a `kind`"),
            ("name = \"x\"\nkind = \"expression\"", "needs `expression`"),
            (
                "name = \"disk\"\nmore_than = 1",
                "means nothing for its kind",
            ),
            (
                "name = \"disk\"\nfree_percent_min = 101",
                "between 0 and 100",
            ),
            (
                "name = \"dead-letters\"\nwithin_seconds = 0",
                "between 1 and",
            ),
            ("name = \"disk\"\n[[rules]]\nname = \"disk\"", "twice"),
        ] {
            let error = resolved(&format!("[[rules]]\n{rule}\n")).unwrap_err();
            assert!(error.contains(expected), "{rule}: {error}");
        }
    }
}
