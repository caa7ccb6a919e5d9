//! Logs go to standard error, so that standard output stays for results, and those of a node to its files
//! as well.

use std::sync::OnceLock;

use clap::ValueEnum;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::{EnvFilter, Layer, Registry, fmt, reload};

use crate::logs::{TapLayer, filter_of};

/// How log lines look.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object per line.
    Json,
}

/// Changes what is logged; there if this process logs as told here.
static FILTER: OnceLock<reload::Handle<EnvFilter, Registry>> = OnceLock::new();

/// Starts logging what `filter` lets through; what a node logs is kept for its files.
pub fn start(filter: &str, format: LogFormat, is_node: bool) -> anyhow::Result<()> {
    let filter = filter_of(filter).map_err(anyhow::Error::msg)?;
    let (filter, handle) = reload::Layer::new(filter);
    let stderr = fmt::layer().with_writer(std::io::stderr).with_ansi(false);
    let stderr = match format {
        LogFormat::Text => stderr.boxed(),
        LogFormat::Json => stderr.json().boxed(),
    };
    let subscriber = tracing_subscriber::registry()
        .with(filter)
        .with(stderr)
        .with(is_node.then_some(TapLayer));
    // What libraries write by other means is left out: some of them write every byte that they send, also secrets.
    tracing::subscriber::set_global_default(subscriber)
        .map_err(|error| anyhow::anyhow!("cannot start logging: {error}"))?;
    let _ = FILTER.set(handle);
    Ok(())
}

/// From now on this filter decides. A process that started logging in its own way goes on in that way.
pub(crate) fn set_filter(filter: EnvFilter) {
    if let Some(handle) = FILTER.get()
        && let Err(error) = handle.reload(filter)
    {
        tracing::warn!(%error, "the log filter cannot be changed");
    }
}
