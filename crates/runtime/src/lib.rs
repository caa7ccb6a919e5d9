//! Runs workers: stages, routers, supervision and hand-over.
//!
//! The main type is [`Runtime`]: code is deployed into it as a stage of a flow, messages are sent to
//! it, and it can be replaced while it runs.
//!
//! ```
//! use std::{sync::Arc, time::Duration};
//! use async_trait::async_trait;
//! use broker::{Broker, SystemClock};
//! use bus::engines::EmbeddedBus;
//! use journal::{Options, testing::MemoryStorage};
//! use kernel::worker::{Failure, Incoming, Turn, Worker, native};
//! use kernel::{Address, Message, StageAddress};
//! use runtime::{Runtime, Settings, StageSpec};
//!
//! struct Echo;
//!
//! #[async_trait]
//! impl Worker for Echo {
//!     async fn receive(&mut self, message: &Incoming, turn: &mut Turn) -> Result<(), Failure> {
//!         turn.reply(message, Message::new(message.message.body.clone()))
//!     }
//! }
//!
//! # #[tokio::main] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let storage = Arc::new(MemoryStorage::new(1));
//! # let (broker, _) =
//! #     Broker::start(storage, Options::default(), broker::Settings::default(), Arc::new(SystemClock))?;
//! # let bus = Arc::new(EmbeddedBus::new(broker));
//! let runtime = Runtime::start(bus, Settings::default(), Arc::new(SystemClock));
//! let stage = StageAddress::new("greetings", "echo")?;
//! runtime.deploy(StageSpec::new(stage.clone()), native("echo", "1.0.0", |_| Echo)).await?;
//!
//! let answer = runtime.ask(&stage.into(), Message::new("hello"), Duration::from_secs(5)).await?;
//! assert_eq!(&answer.body[..], b"hello");
//! # Ok(()) }
//! ```
//!
//! What it deliberately does not do: it knows neither WebAssembly nor any protocol, reads no files,
//! and decides nothing about other nodes.

mod alarm_clock;
mod alarms;
mod cell;
mod control;
mod cycles;
mod deal;
mod dry_run;
mod error;
mod history;
mod key;
mod logs;
mod mailbox;
mod messages;
mod moves;
mod outgoing;
mod outputs;
mod routed;
mod router;
mod runtime;
mod scaling;
mod scope;
mod settings;
mod spec;
mod stage;
mod store;
mod supervision;
mod table;
mod turn_threads;
mod views;
mod waiting;

pub use deal::Deal;
pub use error::{AskError, DeployError, ScaleError, SendError, ShareError, StopError};
pub use key::{BUCKETS, JsonPointer, KeyRule, KeyRuleError, bucket_of};
pub use logs::{LogReader, LogTap};
pub use routed::RoutedLimits;
pub use router::{ROUTERS, Router, RouterKind, RouterKindError, Workers};
pub use runtime::{Deployed, Runtime, Sender, StopTarget};
pub use scaling::{
    BucketMove, MovePauses, ScaleAchieved, ScaleBy, ScaleChange, ScaleDecision, ScaleNumbers,
    ScaleReason, ScaleRule, ScaleRuleError, ScalingView,
};
pub use settings::Settings;
pub use spec::{Delivery, HandOverRule, Intake, StageKind, StageSpec, WORKERS_MAX};
pub use stage::Part;
pub use supervision::{OnFailure, Strategy, SupervisionRule};
pub use views::{
    EdgeView, FlowView, HistoryEntry, HistoryEvent, InputView, LatencyView, LogLine, SampleView,
    SampledView, StageLoad, StageLook, StageState, StageView, WorkerState, WorkerView,
};
