//! One contract suite proves every engine: a table of guarantees by engines, and broken engines
//! that it must catch. `HIVEWIRE_CONTRACT_ENGINE=embedded` limits it to one engine.

mod controls;
mod engines;
mod guarantees;
mod report;
mod suite;

use std::sync::Arc;

use anyhow::{Context, Result};
use hivewire_bench::peers::rabbitmq::RabbitMq;
use parking_lot::Mutex;
use tracing_subscriber::EnvFilter;

use crate::controls::Control;
use crate::engines::broken::Fault;
use crate::engines::{AmqpFixture, EmbeddedFixture, Server};
use crate::report::{Column, Report};
use crate::suite::{Fixture, Guarantee, Outcome, World};

/// Names the only engine to run.
const ENGINE_VARIABLE: &str = "HIVEWIRE_CONTRACT_ENGINE";

/// A part of the name of the only guarantees to ask, for when one is being worked on.
const GUARANTEE_VARIABLE: &str = "HIVEWIRE_CONTRACT_GUARANTEE";

fn main() -> Result<()> {
    // Test runners ask for a list of tests; there is one, and it has no name of its own.
    if std::env::args().any(|argument| argument == "--list") {
        return Ok(());
    }
    // Silent unless RUST_LOG asks: connections are lost here on purpose.
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("off"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .init();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let report = runtime.block_on(run())?;
    report.print();
    runtime.shutdown_background();
    if report.failed() > 0 {
        std::process::exit(1);
    }
    Ok(())
}

async fn run() -> Result<Report> {
    let only = std::env::var(ENGINE_VARIABLE).ok();
    let is_wanted = |engine: &str| only.as_deref().is_none_or(|only| only == engine);
    let guarantees = guarantees::all();
    let mut report = Report::new(&guarantees);
    // The server takes a while to start; meanwhile the embedded engine runs.
    let server = is_wanted("amqp").then(|| tokio::task::spawn_blocking(RabbitMq::start));
    if is_wanted("embedded") {
        let fixture = Arc::new(EmbeddedFixture::start()?);
        report.columns.push(ask_all(&guarantees, fixture).await?);
        report.controls = controls::run(&guarantees).await?;
        report.uncontrolled = controls::uncontrolled(&guarantees);
    }
    if let Some(server) = server {
        let server = server.await?.context("cannot start the AMQP server")?;
        let server: Server = Arc::new(Mutex::new(server));
        run_amqp(&guarantees, server, &mut report).await?;
    }
    Ok(report)
}

async fn run_amqp(guarantees: &[Guarantee], server: Server, report: &mut Report) -> Result<()> {
    let direct = Arc::new(AmqpFixture::direct(server.clone()));
    report.columns.push(ask_all(guarantees, direct).await?);
    let slow = Arc::new(AmqpFixture::over_slow_network(server)?);
    report
        .columns
        .push(ask_all(guarantees, slow.clone()).await?);
    for (name, fault) in [
        (
            "cut connections lose nothing that was promised",
            Fault::DropsMessages,
        ),
        (
            "what was held over a cut is known to be lost",
            Fault::HidesRedelivery,
        ),
    ] {
        let guarantee = controls::find(guarantees, name)?;
        let control: Control = controls::run_one(guarantee, slow.clone(), fault).await?;
        report.controls.push(control);
    }
    Ok(())
}

async fn ask_all(guarantees: &[Guarantee], fixture: Arc<dyn Fixture>) -> Result<Column> {
    let label = fixture.label();
    let mut outcomes = Vec::new();
    let only = std::env::var(GUARANTEE_VARIABLE).unwrap_or_default();
    for guarantee in guarantees {
        if !guarantee.name.contains(&only) {
            outcomes.push(Outcome::NotHere("left out by the environment"));
            continue;
        }
        // A client of its own, so that none inherits another's trouble.
        let world = World::new(fixture.clone()).await?;
        let outcome = guarantee.ask(&world).await;
        report::progress(label, guarantee.name, &outcome);
        outcomes.push(outcome);
    }
    Ok(Column { label, outcomes })
}
