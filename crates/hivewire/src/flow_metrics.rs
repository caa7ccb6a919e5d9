//! Metrics that stages of flows record, beside those of the node.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use flows::plugins::{Metric, MetricKind, MetricSpec, Metrics, OTHER};
use kernel::StageAddress;
use kernel::metrics::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder};
use kernel::metrics::{Collector, Counter, Gauge, Histogram};
use parking_lot::{Mutex, RwLock};
use runtime::Runtime;

/// How many metrics all flows of a node may have together.
const METRICS_MAX: usize = 1_000;
/// How many sets of labels all of them may have together, but for those that mean all others.
const SERIES_MAX: usize = 100_000;

/// Whether there is such a stage.
type Lives = dyn Fn(&StageAddress) -> bool + Send + Sync;

/// The metrics that stages of flows have declared. One goes when none of its stages is there any more: an instance of a
/// worker comes and goes with failures and rest, and what it has counted has to outlast that.
pub(crate) struct FlowMetrics {
    lives: Box<Lives>,
    /// By their name.
    families: Mutex<BTreeMap<String, Declared>>,
    /// How many sets of labels there are.
    series: Arc<AtomicUsize>,
}

struct Declared {
    family: Arc<Family>,
    stages: BTreeSet<StageAddress>,
}

impl FlowMetrics {
    /// Those of the stages of a runtime, which holds them and so is not held by them.
    pub fn of(runtime: &Arc<Runtime>) -> Arc<Self> {
        let runtime = Arc::downgrade(runtime);
        Self::new(move |stage| {
            let runtime = runtime.upgrade();
            runtime.is_some_and(|runtime| runtime.state(stage).is_some())
        })
    }

    /// Nothing yet. A metric stays as long as one of its stages lives.
    fn new(lives: impl Fn(&StageAddress) -> bool + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self {
            lives: Box::new(lives),
            families: Mutex::default(),
            series: Arc::default(),
        })
    }

    /// All that are there, without those that were left behind.
    fn current(&self) -> Vec<Arc<Family>> {
        let mut families = self.families.lock();
        leave(&mut families, |_, stage| (self.lives)(stage));
        let families = families.values();
        families.map(|one| one.family.clone()).collect()
    }
}

/// Only these stages still have these metrics.
fn leave(
    families: &mut BTreeMap<String, Declared>,
    stays: impl Fn(&MetricSpec, &StageAddress) -> bool,
) {
    families.retain(|_, Declared { family, stages }| {
        stages.retain(|stage| stays(&family.spec, stage));
        family.is_shown.store(!stages.is_empty(), Ordering::Relaxed);
        !stages.is_empty()
    });
}

impl Metrics for FlowMetrics {
    fn declare(&self, stage: &StageAddress, spec: &MetricSpec) -> Result<Arc<dyn Metric>, String> {
        let spec = plain(spec);
        let mut families = self.families.lock();
        leave(&mut families, |known, other| match other == stage {
            true => known.name == spec.name && known.compare(&spec).is_ok(),
            false => (self.lives)(other),
        });
        check(&families, &spec)?;
        let declared = families.entry(spec.name.clone());
        let declared = declared.or_insert_with(|| Declared {
            family: Arc::new(Family::new(spec.clone(), self.series.clone())),
            stages: BTreeSet::new(),
        });
        let series_max = &declared.family.series_max;
        series_max.fetch_max(spec.series_max, Ordering::Relaxed);
        declared.stages.insert(stage.clone());
        Ok(declared.family.clone())
    }
}

/// As it is shown: a counter gets `_total` behind its name anyway.
fn plain(spec: &MetricSpec) -> MetricSpec {
    let mut spec = spec.clone();
    if let (MetricKind::Counter, Some(name)) = (&spec.kind, spec.name.strip_suffix("_total")) {
        spec.name = name.to_owned();
    }
    spec
}

/// Whether a metric has room and agrees with those of other stages.
fn check(families: &BTreeMap<String, Declared>, spec: &MetricSpec) -> Result<(), String> {
    for declared in families.values() {
        let known = &declared.family.spec;
        let stage = declared.stages.first().map(ToString::to_string);
        let stage = stage.unwrap_or_default();
        if known.name == spec.name {
            return known.compare(spec).map_err(|difference| {
                format!(
                    "{stage} records {} with {difference}: make them the same, or take another name",
                    spec.name
                )
            });
        }
        let lines = known.lines();
        if let Some(line) = spec.lines().iter().find(|line| lines.contains(line)) {
            return Err(format!(
                "{stage} records {}, which is shown as {line}, too: take another name",
                known.name
            ));
        }
    }
    if families.len() >= METRICS_MAX {
        return Err(format!(
            "the flows of this node have {METRICS_MAX} metrics already, which is as many as there may be"
        ));
    }
    Ok(())
}

trait Comparing {
    /// Whether both mean the same; otherwise how this one is.
    fn compare(&self, other: &MetricSpec) -> Result<(), String>;

    /// The names under which its values are shown.
    fn lines(&self) -> Vec<String>;
}

impl Comparing for MetricSpec {
    fn compare(&self, other: &MetricSpec) -> Result<(), String> {
        let word = |kind: &MetricKind| match kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram(_) => "histogram",
        };
        if word(&self.kind) != word(&other.kind) {
            return Err(format!("the kind {}", word(&self.kind)));
        }
        if self.kind != other.kind {
            return Err("other bounds".to_owned());
        }
        if self.labels != other.labels {
            return Err(match self.labels.is_empty() {
                true => "no labels".to_owned(),
                false => format!("the labels {}", self.labels.join(", ")),
            });
        }
        match self.help == other.help {
            true => Ok(()),
            false => Err(format!("the help {:?}", self.help)),
        }
    }

    fn lines(&self) -> Vec<String> {
        let endings: &[&str] = match self.kind {
            MetricKind::Counter => &["", "_total", "_created"],
            MetricKind::Gauge => &[""],
            MetricKind::Histogram(_) => &["", "_bucket", "_count", "_sum", "_created"],
        };
        let name = &self.name;
        let lines = endings.iter().map(|ending| format!("{name}{ending}"));
        lines.collect()
    }
}

/// One metric with all its sets of labels.
struct Family {
    spec: MetricSpec,
    series_max: AtomicUsize,
    is_shown: AtomicBool,
    series: RwLock<HashMap<Vec<String>, Series>>,
    /// How many sets of labels all metrics have.
    all_series: Arc<AtomicUsize>,
}

/// A metric with one set of labels.
enum Series {
    Counter(Counter<f64, AtomicU64>),
    Gauge(Gauge<f64, AtomicU64>),
    Histogram(Histogram),
}

impl Series {
    fn new(kind: &MetricKind) -> Self {
        match kind {
            MetricKind::Counter => Self::Counter(Counter::default()),
            MetricKind::Gauge => Self::Gauge(Gauge::default()),
            MetricKind::Histogram(bounds) => Self::Histogram(Histogram::new(bounds.clone())),
        }
    }

    fn record(&self, value: f64) {
        match self {
            Self::Counter(counter) => {
                counter.inc_by(value);
            }
            Self::Gauge(gauge) => {
                gauge.set(value);
            }
            Self::Histogram(histogram) => histogram.observe(value),
        }
    }

    fn encode(&self, encoder: MetricEncoder<'_>) -> fmt::Result {
        match self {
            Self::Counter(counter) => counter.encode(encoder),
            Self::Gauge(gauge) => gauge.encode(encoder),
            Self::Histogram(histogram) => histogram.encode(encoder),
        }
    }
}

impl Family {
    fn new(spec: MetricSpec, all_series: Arc<AtomicUsize>) -> Self {
        Self {
            series_max: AtomicUsize::new(spec.series_max),
            is_shown: AtomicBool::new(true),
            series: RwLock::default(),
            all_series,
            spec,
        }
    }

    /// Records something under labels that are new.
    fn record_new(&self, labels: &[String], value: f64) {
        let mut series = self.series.write();
        let is_known = series.contains_key(labels);
        let other = vec![OTHER.to_owned(); labels.len()];
        let others = usize::from(series.contains_key(&other));
        let has_room = series.len() - others < self.series_max.load(Ordering::Relaxed)
            && self.all_series.load(Ordering::Relaxed) < SERIES_MAX;
        let labels = match is_known || has_room {
            true => labels.to_vec(),
            false => other,
        };
        let one = series.entry(labels).or_insert_with(|| {
            self.all_series.fetch_add(1, Ordering::Relaxed);
            Series::new(&self.spec.kind)
        });
        one.record(value);
    }

    fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let (name, help) = (&self.spec.name, escaped(&self.spec.help));
        let kind = match Series::new(&self.spec.kind) {
            Series::Counter(counter) => counter.metric_type(),
            Series::Gauge(gauge) => gauge.metric_type(),
            Series::Histogram(histogram) => histogram.metric_type(),
        };
        let mut family = encoder.encode_descriptor(name, &help, None, kind)?;
        let series = self.series.read();
        let mut sorted: Vec<_> = series.iter().collect();
        sorted.sort_unstable_by_key(|(labels, _)| *labels);
        for (values, one) in sorted {
            let names = self.spec.labels.iter().map(String::as_str);
            let labels: Vec<(&str, &str)> = names.zip(values.iter().map(String::as_str)).collect();
            if labels.is_empty() {
                return one.encode(family);
            }
            one.encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

impl Drop for Family {
    fn drop(&mut self) {
        let series = self.series.get_mut().len();
        self.all_series.fetch_sub(series, Ordering::Relaxed);
    }
}

impl Metric for Family {
    fn record(&self, labels: &[String], value: f64) {
        if let Some(series) = self.series.read().get(labels) {
            return series.record(value);
        }
        self.record_new(labels, value);
    }

    fn is_shown(&self) -> bool {
        self.is_shown.load(Ordering::Relaxed)
    }
}

/// What stands in a line of help stays in it.
fn escaped(help: &str) -> String {
    let help = help.replace('\\', "\\\\").replace('"', "\\\"");
    help.replace("\r\n", "\n").replace(['\n', '\r'], "\\n")
}

/// Shows them.
pub(crate) struct FlowCollector(pub Arc<FlowMetrics>);

impl fmt::Debug for FlowCollector {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("FlowCollector")
    }
}

impl Collector for FlowCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let families = self.0.current();
        families
            .iter()
            .try_for_each(|family| family.encode(&mut encoder))
    }
}

#[cfg(test)]
#[path = "flow_metrics_tests.rs"]
mod tests;
