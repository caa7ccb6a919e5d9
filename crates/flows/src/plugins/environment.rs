//! What built-in plug-ins need of the node that they run on. A node gives what it wants to give; a plug-in that
//! needs more says so when it is deployed.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bus::Bus;
use bytes::Bytes;
use kernel::StageAddress;
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
    /// The stage whose worker this is for. The code of a built-in plug-in fills it in.
    pub stage: Option<StageAddress>,
    /// The name of the node.
    pub node: String,
    /// What plug-ins of this node share with each other, such as a pool of connections.
    pub shared: Arc<SharedParts>,
}

/// Parts that plug-ins of one node share: one of each type, made by whoever needs it first.
#[derive(Default)]
pub struct SharedParts(Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>);

impl SharedParts {
    /// The part of this type.
    pub fn get_or_make<T: Any + Send + Sync>(&self, make: impl FnOnce() -> T) -> Arc<T> {
        let mut parts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let part = parts
            .entry(TypeId::of::<T>())
            .or_insert_with(|| Arc::new(make()));
        let part = part.clone().downcast();
        part.unwrap_or_else(|_| unreachable!("parts lie under their own type"))
    }
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

/// What a metric is.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricSpec {
    /// Its name.
    pub name: String,
    /// What it is, for people.
    pub help: String,
    /// What kind it is.
    pub kind: MetricKind,
    /// The names of its labels, in order.
    pub labels: Vec<String>,
    /// How many sets of labels there may be. What has another set is recorded under [`OTHER`].
    pub series_max: usize,
}

/// The value of all labels of what found no room under its own.
pub const OTHER: &str = "other";

/// A metric that somebody declared.
pub trait Metric: Send + Sync {
    /// Adds to a counter, sets a gauge, or counts a value in a histogram, under these values of the labels.
    fn record(&self, labels: &[String], value: f64);

    /// Whether it is still shown. One that is not was taken to be left behind, and is to be declared again.
    fn is_shown(&self) -> bool;
}

/// Shows metrics, for Prometheus.
pub trait Metrics: Send + Sync {
    /// The metric of this name, the same one for all stages that declare it; otherwise why there is none, such as
    /// another kind under this name. A stage has one: what it declared before goes, unless others have it, too.
    fn declare(&self, stage: &StageAddress, spec: &MetricSpec) -> Result<Arc<dyn Metric>, String>;
}

impl Environment {
    /// The bus, for a plug-in that needs it.
    pub fn bus(&self) -> Result<Arc<dyn Bus>, ParameterError> {
        let bus = self.bus.clone();
        bus.ok_or_else(|| ParameterError::general("this node offers no bus to plug-ins"))
    }

    /// HTTP, for a plug-in that needs it.
    pub fn http(&self) -> Result<Arc<dyn Http>, ParameterError> {
        let http = self.http.clone();
        http.ok_or_else(|| ParameterError::general("this node offers no HTTP to plug-ins"))
    }

    /// A file in the folder of flows. It cannot lead out of there.
    pub fn file(&self, field: &str, path: &str) -> Result<PathBuf, ParameterError> {
        let Some(folder) = &self.folder else {
            return Err(ParameterError::new(
                field,
                "this node offers no folder for files of flows",
            ));
        };
        check_file(field, path)?;
        Ok(folder.join(path))
    }
}

/// Whether a path stays in the folder of flows.
pub fn check_file(field: &str, path: &str) -> Result<(), ParameterError> {
    let is_plain = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
    let path = Path::new(path);
    match path.file_name().is_some() && path.components().all(is_plain) {
        true => Ok(()),
        false => Err(ParameterError::new(
            field,
            "name a file in the folder of flows, such as input/words.txt: no / at its start and no ..",
        )),
    }
}
