//! Addresses: where a worker, a client or a user of the command line sends a message.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Destination, Name, NameError};

/// The longest name of a flow, a stage or a child.
pub const PART_BYTES_MAX: usize = 60;

/// Where a message goes: to a stage or one of its workers, to a queue, or to a topic.
///
/// As text: `flow/stage`, `flow/stage/3`, `flow/stage/3/child`, `queue:NAME`, `topic:NAME`. The
/// forms `/queue/NAME` and `/topic/NAME`, which clients put into reply addresses, are understood
/// as well.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(try_from = "String", into = "String")]
pub enum Address {
    /// A stage: one of its workers gets the message.
    Stage(StageAddress),
    /// One worker of a stage, or a child of it.
    Worker(WorkerAddress),
    /// A queue of the bus, whoever reads it.
    Queue(Name),
    /// A topic of the bus.
    Topic(Name),
}

/// A stage of a flow, `flow/stage`.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(try_from = "String", into = "String")]
pub struct StageAddress {
    flow: Name,
    stage: Name,
}

/// One worker of a stage, `flow/stage/3`, or a child that it started, `flow/stage/3/child`. It is
/// logical: it stays when the worker is restarted, replaced or moved.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(try_from = "String", into = "String")]
pub struct WorkerAddress {
    stage: StageAddress,
    worker: u32,
    child: Option<Name>,
}

impl StageAddress {
    /// The stage of that name in the flow of that name.
    pub fn new(flow: &str, stage: &str) -> Result<Self, AddressError> {
        Ok(Self {
            flow: part(flow)?,
            stage: part(stage)?,
        })
    }

    /// The name of the flow.
    pub fn flow(&self) -> &Name {
        &self.flow
    }

    /// The name of the stage within its flow.
    pub fn stage(&self) -> &Name {
        &self.stage
    }

    /// The queue that any client can send to: `flow.stage`.
    pub fn queue(&self) -> Name {
        queue_name(format_args!("{}.{}", self.flow, self.stage))
    }

    /// The queue of one bucket of a keyed stage, which also names its state: `flow.stage.b7`.
    pub fn bucket(&self, bucket: u32) -> Name {
        queue_name(format_args!("{}.{}.b{bucket}", self.flow, self.stage))
    }

    /// One of its workers.
    pub fn worker(&self, worker: u32) -> WorkerAddress {
        WorkerAddress {
            stage: self.clone(),
            worker,
            child: None,
        }
    }
}

impl WorkerAddress {
    /// Its stage.
    pub fn stage(&self) -> &StageAddress {
        &self.stage
    }

    /// Its number within the stage, from zero.
    pub fn worker(&self) -> u32 {
        self.worker
    }

    /// The name of the child, if it is one.
    pub fn child(&self) -> Option<&Name> {
        self.child.as_ref()
    }

    /// A child of this worker.
    pub fn with_child(&self, child: &str) -> Result<Self, AddressError> {
        Ok(Self {
            child: Some(part(child)?),
            ..self.clone()
        })
    }

    /// The queue of this worker alone, which also names its state: `flow.stage.3`.
    pub fn queue(&self) -> Name {
        let (flow, stage) = (&self.stage.flow, &self.stage.stage);
        match &self.child {
            Some(child) => queue_name(format_args!("{flow}.{stage}.{}.{child}", self.worker)),
            None => queue_name(format_args!("{flow}.{stage}.{}", self.worker)),
        }
    }
}

impl Address {
    /// Where on the bus it is.
    pub fn destination(&self) -> Destination {
        match self {
            Self::Stage(stage) => Destination::Queue(stage.queue()),
            Self::Worker(worker) => Destination::Queue(worker.queue()),
            Self::Queue(name) => Destination::Queue(name.clone()),
            Self::Topic(name) => Destination::Topic(name.clone()),
        }
    }
}

/// Why a text is no address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// It has none of the forms.
    #[error(
        "{text:?} is no address: write flow/stage, flow/stage/3, flow/stage/3/child, queue:NAME or topic:NAME"
    )]
    Form {
        /// The text.
        text: String,
    },
    /// The name of a flow, stage or child does not fit.
    #[error(
        "{text:?} cannot name a flow, stage or child: use 1 to {PART_BYTES_MAX} letters, digits, - and _"
    )]
    Part {
        /// The name.
        text: String,
    },
    /// The name of a queue or topic does not fit.
    #[error("the queue or topic cannot be named so: {0}")]
    Name(#[from] NameError),
}

/// Parts hold no full stop and no stroke, so that no two addresses have the same queue.
fn part(text: &str) -> Result<Name, AddressError> {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if text.is_empty() || text.len() > PART_BYTES_MAX || !text.chars().all(fits) {
        return Err(AddressError::Part {
            text: text.to_owned(),
        });
    }
    Ok(Name::new(text)?)
}

fn queue_name(text: fmt::Arguments<'_>) -> Name {
    Name::new(&text.to_string()).expect("parts are short and hold neither space nor control")
}

impl FromStr for StageAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        match text.parse()? {
            Address::Stage(stage) => Ok(stage),
            _ => Err(AddressError::Form {
                text: text.to_owned(),
            }),
        }
    }
}

impl FromStr for WorkerAddress {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        match text.parse()? {
            Address::Worker(worker) => Ok(worker),
            _ => Err(AddressError::Form {
                text: text.to_owned(),
            }),
        }
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let form = || AddressError::Form {
            text: text.to_owned(),
        };
        for prefix in ["queue:", "/queue/"] {
            if let Some(name) = text.strip_prefix(prefix) {
                return Ok(Self::Queue(Name::new(name)?));
            }
        }
        for prefix in ["topic:", "/topic/"] {
            if let Some(name) = text.strip_prefix(prefix) {
                return Ok(Self::Topic(Name::new(name)?));
            }
        }
        let mut parts = text.split('/');
        let (Some(flow), Some(stage)) = (parts.next(), parts.next()) else {
            return Err(form());
        };
        let stage = StageAddress::new(flow, stage)?;
        let Some(worker) = parts.next() else {
            return Ok(Self::Stage(stage));
        };
        let worker = stage.worker(worker.parse().map_err(|_| form())?);
        match (parts.next(), parts.next()) {
            (None, _) => Ok(Self::Worker(worker)),
            (Some(child), None) => Ok(Self::Worker(worker.with_child(child)?)),
            (Some(_), Some(_)) => Err(form()),
        }
    }
}

impl fmt::Display for StageAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.flow, self.stage)
    }
}

impl fmt::Display for WorkerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.stage, self.worker)?;
        match &self.child {
            Some(child) => write!(f, "/{child}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stage(stage) => stage.fmt(f),
            Self::Worker(worker) => worker.fmt(f),
            Self::Queue(name) => write!(f, "queue:{name}"),
            Self::Topic(name) => write!(f, "topic:{name}"),
        }
    }
}

macro_rules! as_text {
    ($($type:ty),*) => {$(
        impl TryFrom<String> for $type {
            type Error = AddressError;

            fn try_from(text: String) -> Result<Self, AddressError> {
                text.parse()
            }
        }

        impl From<$type> for String {
            fn from(address: $type) -> Self {
                address.to_string()
            }
        }
    )*};
}

as_text!(Address, StageAddress, WorkerAddress);

impl From<StageAddress> for Address {
    fn from(stage: StageAddress) -> Self {
        Self::Stage(stage)
    }
}

impl From<WorkerAddress> for Address {
    fn from(worker: WorkerAddress) -> Self {
        Self::Worker(worker)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_written_alike() {
        for text in [
            "shop/orders",
            "shop/orders/3",
            "shop/orders/3/helper-1",
            "queue:a.b/c",
            "topic:news",
        ] {
            let address: Address = text.parse().unwrap();
            assert_eq!(address.to_string(), text);
        }
        let from_client: Address = "/queue/answers".parse().unwrap();
        assert_eq!(from_client.to_string(), "queue:answers");
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in [
            "",
            "shop",
            "shop/",
            "a/b/c",
            "a/b/1/c/d",
            "a.b/c",
            "queue:",
            "a/b/1/",
        ] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }

    #[test]
    fn every_address_has_its_queue() {
        let queue = |text: &str| {
            let address: Address = text.parse().unwrap();
            address.destination().name().to_string()
        };
        assert_eq!(queue("shop/orders"), "shop.orders");
        assert_eq!(queue("shop/orders/3"), "shop.orders.3");
        assert_eq!(queue("shop/orders/3/kid"), "shop.orders.3.kid");
        let stage = StageAddress::new("shop", "orders").unwrap();
        assert_eq!(stage.bucket(7).as_str(), "shop.orders.b7");
    }
}
