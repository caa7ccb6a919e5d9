//! The crawler as people use it, on a site of this machine: it has every page, keeps to what it is told, waits as long as it
//! should, and survives what the web and its own machine do to it.

mod archive;
mod change;
mod clean;
mod examples;
mod guard;
mod kills;
mod politeness;
mod postgres;
mod several_nodes;
mod traps;

use std::time::Duration;

use parking_lot::Mutex;

/// Several crawls at a time would only show how slow the machine is.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
/// The flow of every crawl here.
const FLOW: &str = "crawl-test";
/// How long a crawl may take.
const OVER_WITHIN: Duration = Duration::from_secs(90);
