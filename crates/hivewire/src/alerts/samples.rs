//! Metrics by name, read off the text of `/metrics`.

use std::collections::{HashMap, HashSet};

use control::alerts::Labels;

/// One value of a metric.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sample {
    pub labels: Labels,
    pub value: f64,
}

/// The values of those metrics that somebody asked for.
#[derive(Clone, Debug, Default)]
pub(super) struct Samples {
    by_name: HashMap<String, Vec<Sample>>,
    /// The names that there are, also of metrics without any value.
    names: HashSet<String>,
}

impl Samples {
    /// Reads them.
    pub fn parse(text: &str, wanted: &HashSet<&str>) -> Self {
        let mut samples = Self::default();
        for line in text.lines() {
            match line.strip_prefix("# TYPE ") {
                Some(declared) => samples.declare(declared),
                None if line.starts_with('#') => {}
                None => samples.add(line, wanted),
            }
        }
        samples
    }

    fn declare(&mut self, declared: &str) {
        let (name, kind) = declared.split_once(' ').unwrap_or((declared, ""));
        let endings: &[&str] = match kind {
            "counter" => &["_total"],
            "histogram" => &["_bucket", "_count", "_sum"],
            _ => &[""],
        };
        for ending in endings {
            self.names.insert(format!("{name}{ending}"));
        }
    }

    fn add(&mut self, line: &str, wanted: &HashSet<&str>) {
        let end = line.find(['{', ' ']).unwrap_or(line.len());
        let (name, rest) = line.split_at(end);
        if !wanted.contains(name) {
            return;
        }
        let Some((labels, rest)) = labels_of(rest) else {
            return;
        };
        let value = rest.split_whitespace().next();
        if let Some(value) = value.and_then(|value| value.parse().ok()) {
            let values = self.by_name.entry(name.to_owned()).or_default();
            values.push(Sample { labels, value });
        }
    }

    /// All values of a metric.
    pub fn of(&self, name: &str) -> &[Sample] {
        self.by_name.get(name).map_or(&[], Vec::as_slice)
    }

    /// Whether there is such a metric.
    pub fn knows(&self, name: &str) -> bool {
        self.names.contains(name)
    }
}

/// The labels in braces, if there are any, and what stands behind them.
fn labels_of(text: &str) -> Option<(Labels, &str)> {
    let Some(mut rest) = text.strip_prefix('{') else {
        return Some((Labels::new(), text));
    };
    let mut labels = Labels::new();
    loop {
        rest = rest.trim_start_matches(',');
        if let Some(rest) = rest.strip_prefix('}') {
            return Some((labels, rest));
        }
        let (key, quoted) = rest.split_once("=\"")?;
        let (value, after) = quoted_text(quoted)?;
        labels.insert(key.to_owned(), value);
        rest = after;
    }
}

/// The text up to the closing quotation mark, and what stands behind that.
fn quoted_text(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => match characters.next()?.1 {
                'n' => value.push('\n'),
                other => value.push(other),
            },
            other => value.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use kernel::metrics::{Counter, Gauge, Registry, duration_histogram, to_text};

    use super::*;

    #[test]
    fn what_the_registry_writes_is_read_back() {
        let mut registry = Registry::with_prefix("hivewire");
        let (gauge, counter) = (Gauge::<i64>::default(), Counter::<u64>::default());
        gauge.set(-3);
        counter.inc_by(7);
        registry.register("depth", "Depth", gauge);
        registry.register("things", "Things", counter);
        let histogram = duration_histogram();
        histogram.observe(0.5);
        registry.register("took_seconds", "Time", histogram);
        let text = to_text(&registry);
        let wanted = HashSet::from([
            "hivewire_depth",
            "hivewire_things_total",
            "hivewire_took_seconds_count",
        ]);
        let samples = Samples::parse(&text, &wanted);
        assert_eq!(samples.of("hivewire_depth")[0].value, -3.0);
        assert_eq!(samples.of("hivewire_things_total")[0].value, 7.0);
        assert_eq!(samples.of("hivewire_took_seconds_count")[0].value, 1.0);
        assert!(samples.knows("hivewire_took_seconds_bucket"));
        assert!(!samples.knows("hivewire_nothing"), "{text}");
    }

    #[test]
    fn labels_may_hold_anything() {
        let text = "m{queue=\"a\\\"b\\\\c\\nd,}\",more=\"x\"} 4 17\nm 5\nother 6\n";
        let samples = Samples::parse(text, &HashSet::from(["m"]));
        let found = samples.of("m");
        assert_eq!(found[0].labels["queue"], "a\"b\\c\nd,}");
        assert_eq!(
            (found[0].labels["more"].as_str(), found[0].value),
            ("x", 4.0)
        );
        assert!(found[1].labels.is_empty() && found[1].value == 5.0);
        assert!(samples.of("other").is_empty());
        for broken in ["m{queue=\"a", "m{", "m{queue} 1", "m x", "m"] {
            let samples = Samples::parse(broken, &HashSet::from(["m"]));
            assert!(samples.of("m").is_empty(), "{broken}");
        }
    }
}
