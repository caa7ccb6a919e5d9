//! Recorded loads.

/// A load over time.
pub struct Trace {
    pub name: &'static str,
    /// So often a stage may turn from growing to shrinking or back.
    pub direction_changes_max: usize,
    /// Events in each second.
    pub per_second: Vec<f64>,
}

macro_rules! traces {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../../tests/traces/", $name, ".csv")))),*]
    };
}

const TRACES: &[(&str, &str)] = traces![
    "staircase",
    "daily",
    "sawtooth",
    "spikes",
    "step",
    "noise",
    "ramp",
    "bursts",
    "hot-key",
    "zero-then-flood",
    "threshold",
];

pub fn traces() -> Vec<Trace> {
    TRACES
        .iter()
        .map(|(name, text)| parse(name, text))
        .collect()
}

pub fn trace(name: &str) -> Trace {
    let found = traces().into_iter().find(|trace| trace.name == name);
    found.unwrap_or_else(|| panic!("there is no trace {name}"))
}

fn parse(name: &'static str, text: &str) -> Trace {
    let mut trace = Trace {
        name,
        direction_changes_max: 0,
        per_second: Vec::new(),
    };
    let mut rate = 0.0;
    for line in text.lines() {
        if let Some(max) = line.strip_prefix("# direction_changes_max=") {
            trace.direction_changes_max = max.parse().expect("a number");
        }
        let Some((second, value)) = line.split_once(',') else {
            continue;
        };
        let Ok(second) = second.parse::<usize>() else {
            continue;
        };
        trace.per_second.resize(second, rate);
        rate = value.parse().unwrap_or(0.0);
    }
    trace
}
