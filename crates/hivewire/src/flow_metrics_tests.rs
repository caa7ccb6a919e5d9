use std::collections::HashSet;

use kernel::metrics::{Registry, to_text};

use super::*;

/// Metrics of stages, and those stages that live.
struct Rig {
    metrics: Arc<FlowMetrics>,
    living: Arc<Mutex<HashSet<String>>>,
    registry: Registry,
}

impl Rig {
    fn new() -> Self {
        let living: Arc<Mutex<HashSet<String>>> = Arc::default();
        let known = living.clone();
        let metrics = FlowMetrics::new(move |stage| known.lock().contains(&stage.to_string()));
        let mut registry = Registry::default();
        registry.register_collector(Box::new(FlowCollector(metrics.clone())));
        Self {
            metrics,
            living,
            registry,
        }
    }

    fn declare(&self, stage: &str, spec: &MetricSpec) -> Result<Arc<dyn Metric>, String> {
        self.living.lock().insert(stage.to_owned());
        self.metrics.declare(&stage.parse().unwrap(), spec)
    }

    fn end(&self, stage: &str) {
        self.living.lock().remove(stage);
    }

    fn text(&self) -> String {
        to_text(&self.registry)
    }
}

fn spec(name: &str, kind: MetricKind, labels: &[&str]) -> MetricSpec {
    MetricSpec {
        name: name.to_owned(),
        help: "Sales.".to_owned(),
        kind,
        labels: labels.iter().map(|&label| label.to_owned()).collect(),
        series_max: 2,
    }
}

fn values(values: &[&str]) -> Vec<String> {
    values.iter().map(|&value| value.to_owned()).collect()
}

#[test]
fn every_kind_is_shown_as_prometheus_reads_it() {
    let rig = Rig::new();
    let counter = spec("sales", MetricKind::Counter, &["shop"]);
    let counter = rig.declare("f/counter", &counter).unwrap();
    counter.record(&values(&["a\"b"]), 1.5);
    counter.record(&values(&["a\"b"]), 2.0);
    let gauge = MetricSpec {
        help: "Two\nlines, a \\ and a \".".to_owned(),
        ..spec("depth", MetricKind::Gauge, &[])
    };
    let gauge = rig.declare("f/gauge", &gauge).unwrap();
    gauge.record(&[], 7.0);
    gauge.record(&[], -2.5);
    let histogram = MetricKind::Histogram(vec![1.0, 10.0]);
    let histogram = spec("prices", histogram, &[]);
    let histogram = rig.declare("f/histogram", &histogram).unwrap();
    [0.5, 5.0, 50.0]
        .iter()
        .for_each(|value| histogram.record(&[], *value));
    let expected = "\
# HELP depth Two\\nlines, a \\\\ and a \\\".
# TYPE depth gauge
depth -2.5
# HELP prices Sales.
# TYPE prices histogram
prices_sum 55.5
prices_count 3
prices_bucket{le=\"1.0\"} 1
prices_bucket{le=\"10.0\"} 2
prices_bucket{le=\"+Inf\"} 3
# HELP sales Sales.
# TYPE sales counter
sales_total{shop=\"a\\\"b\"} 3.5
# EOF
";
    assert_eq!(rig.text(), expected);
}

#[test]
fn stages_that_record_the_same_metric_share_it() {
    let rig = Rig::new();
    // Prometheus wants `_total` behind the name, and people write it.
    for (stage, name) in [("f/a", "sales"), ("f/b", "sales_total"), ("f/a", "sales")] {
        let metric = rig.declare(stage, &spec(name, MetricKind::Counter, &[]));
        metric.unwrap().record(&[], 1.0);
    }
    assert!(rig.text().contains("\nsales_total 3.0\n"), "{}", rig.text());
}

#[test]
fn a_name_means_one_thing() {
    let rig = Rig::new();
    let known = spec("sales", MetricKind::Counter, &["shop"]);
    rig.declare("f/a", &known).unwrap();
    let histogram = |bounds: &[f64]| MetricKind::Histogram(bounds.to_vec());
    rig.declare("f/h", &spec("prices", histogram(&[1.0]), &[]))
        .unwrap();
    let other_help = MetricSpec {
        help: "Other.".to_owned(),
        ..known.clone()
    };
    for (wrong, part) in [
        (
            spec("sales", MetricKind::Gauge, &["shop"]),
            "the kind counter",
        ),
        (
            spec("sales", MetricKind::Counter, &["place"]),
            "the labels shop",
        ),
        (other_help, "the help \"Sales.\""),
        (spec("prices", histogram(&[2.0]), &[]), "other bounds"),
        (spec("prices", histogram(&[1.0]), &["shop"]), "no labels"),
        (
            spec("sales_total", MetricKind::Gauge, &[]),
            "shown as sales_total",
        ),
        (
            spec("prices_count", MetricKind::Gauge, &[]),
            "shown as prices_count",
        ),
    ] {
        let refused = rig.declare("f/b", &wrong).err();
        let reason = refused.unwrap_or_else(|| panic!("{wrong:?} was taken"));
        assert!(reason.contains(part), "{reason}");
        assert!(reason.starts_with("f/"), "{reason}");
    }
    rig.declare("f/b", &known).unwrap();
}

#[test]
fn a_metric_goes_with_the_last_of_its_stages() {
    let rig = Rig::new();
    let sales = spec("sales", MetricKind::Counter, &[]);
    rig.declare("f/a", &sales).unwrap().record(&[], 1.0);
    let metric = rig.declare("f/b", &sales).unwrap();
    metric.record(&[], 1.0);
    rig.end("f/a");
    // An instance that is made anew goes on counting.
    rig.declare("f/b", &sales).unwrap().record(&[], 1.0);
    assert!(rig.text().contains("sales_total 3.0"), "{}", rig.text());
    assert!(metric.is_shown());
    rig.end("f/b");
    assert_eq!(rig.text(), "# EOF\n");
    assert!(!metric.is_shown());
    // Nobody has it, so it can become something else.
    rig.declare("f/c", &spec("sales", MetricKind::Gauge, &[]))
        .unwrap();
}

#[test]
fn a_stage_can_change_its_own_metric() {
    let rig = Rig::new();
    let old = rig.declare("f/a", &spec("sales", MetricKind::Counter, &[]));
    let old = old.unwrap();
    old.record(&[], 1.0);
    let changed = spec("sales", MetricKind::Counter, &["shop"]);
    let changed = rig.declare("f/a", &changed).unwrap();
    changed.record(&values(&["x"]), 1.0);
    assert!(!old.is_shown());
    assert!(rig.text().contains("sales_total{shop=\"x\"} 1.0"));
    rig.declare("f/a", &spec("other", MetricKind::Counter, &[]))
        .unwrap();
    assert!(!rig.text().contains("sales"), "{}", rig.text());
}

#[test]
fn sets_of_labels_are_bounded() {
    let rig = Rig::new();
    let sales = spec("sales", MetricKind::Counter, &["shop", "place"]);
    let metric = rig.declare("f/a", &sales).unwrap();
    for shop in ["a", "b", "c", "a", "d"] {
        metric.record(&values(&[shop, "x"]), 1.0);
    }
    let text = rig.text();
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    let expected = [
        "sales_total{shop=\"a\",place=\"x\"} 2.0",
        "sales_total{shop=\"b\",place=\"x\"} 1.0",
        "sales_total{shop=\"other\",place=\"other\"} 2.0",
    ];
    assert_eq!(lines, expected);
    assert_eq!(rig.metrics.series.load(Ordering::Relaxed), 3);
    drop(metric);
    rig.end("f/a");
    rig.text();
    assert_eq!(rig.metrics.series.load(Ordering::Relaxed), 0);
}
