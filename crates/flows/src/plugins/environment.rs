//! What built-in plug-ins need of the node that they run on. A node gives what it wants to give; a plug-in that
//! needs more says so when it is deployed.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bus::Bus;
use bytes::Bytes;
use url::Url;

use super::ParameterError;

/// What a node offers to built-in plug-ins. The default offers nothing.
#[derive(Clone, Default)]
pub struct Environment {
    /// Where queues and topics are subscribed to.
    pub bus: Option<Arc<dyn Bus>>,
    /// How something is asked for over HTTP.
    pub http: Option<Arc<dyn Http>>,
    /// The only folder in which files are read and written.
    pub folder: Option<PathBuf>,
    /// Where measured values are shown.
    pub metrics: Option<Arc<dyn Metrics>>,
}

/// A request over HTTP.
#[derive(Clone, Debug)]
pub struct Request {
    /// `GET`, `POST` or `PUT`.
    pub method: &'static str,
    /// Where to.
    pub url: Url,
    /// Headers besides those that belong to every request.
    pub headers: Vec<(String, String)>,
    /// What is sent.
    pub body: Bytes,
    /// How long it may take.
    pub timeout: Duration,
    /// How long the answer may be.
    pub answer_bytes_max: usize,
}

/// An answer over HTTP, whatever its status is.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Its status.
    pub status: u16,
    /// Its headers, names in lower case.
    pub headers: Vec<(String, String)>,
    /// What came.
    pub body: Bytes,
}

/// Asks over HTTP. Whoever implements it guards against being led to addresses that are not public.
#[async_trait]
pub trait Http: Send + Sync {
    /// The answer; otherwise why there is none. It ends within the timeout of the request.
    async fn ask(&self, request: Request) -> Result<Answer, String>;
}

/// What kind of metric it is.
#[derive(Clone, Debug, PartialEq)]
pub enum MetricKind {
    /// A sum that only grows.
    Counter,
    /// A value that goes up and down.
    Gauge,
    /// How many values there were below each of these bounds.
    Histogram(Vec<f64>),
}

/// One metric with one set of labels.
pub trait Metric: Send + Sync {
    /// Adds to a counter, sets a gauge, or counts a value in a histogram.
    fn record(&self, value: f64);
}

/// Shows metrics, for Prometheus.
pub trait Metrics: Send + Sync {
    /// The metric of this name and these labels, the same one each time; otherwise why there is none, such as
    /// another kind under this name.
    fn metric(
        &self,
        name: &str,
        help: &str,
        kind: &MetricKind,
        labels: &[(String, String)],
    ) -> Result<Arc<dyn Metric>, String>;
}

impl Environment {
    /// The bus, for a plug-in that needs it.
    pub(super) fn bus(&self) -> Result<Arc<dyn Bus>, ParameterError> {
        let bus = self.bus.clone();
        bus.ok_or_else(|| ParameterError::general("this node offers no bus to plug-ins"))
    }

    /// HTTP, for a plug-in that needs it.
    pub(super) fn http(&self) -> Result<Arc<dyn Http>, ParameterError> {
        let http = self.http.clone();
        http.ok_or_else(|| ParameterError::general("this node offers no HTTP to plug-ins"))
    }

    /// A file in the folder of flows. It cannot lead out of there.
    pub(super) fn file(&self, field: &str, path: &str) -> Result<PathBuf, ParameterError> {
        let Some(folder) = &self.folder else {
            return Err(ParameterError::new(
                field,
                "this node offers no folder for files of flows",
            ));
        };
        let is_plain =
            |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
        let path = Path::new(path);
        if path.file_name().is_none() || !path.components().all(is_plain) {
            let wanted = "name a file in the folder of flows, such as input/words.txt: no / at its start and no ..";
            return Err(ParameterError::new(field, wanted));
        }
        Ok(folder.join(path))
    }
}
