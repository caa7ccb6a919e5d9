//! One contract suite proves every engine: a table of guarantees by engines, and broken engines
//! that it must catch. `HIVEWIRE_CONTRACT_ENGINE` limits it: `embedded` or `amqp` to one engine,
//! `stomp` to all that speak STOMP, `stomp, activemq` to one of these, `stored` to those with a
//! shared store.

mod controls;
mod engines;
mod guarantees;
mod report;
mod suite;

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use hivewire_bench::peers::rabbitmq::RabbitMq;
use parking_lot::Mutex;
use tracing_subscriber::EnvFilter;

use crate::controls::Control;
use crate::engines::broken::Fault;
use crate::engines::{
    AmqpFixture, EmbeddedFixture, Server, StompFixture, StompServer, StoreServer, StoredFixture,
    start_store,
};
use crate::report::{Column, Report};
use crate::suite::{Fixture, Guarantee, Outcome, World};

/// What each engine promises, for people.
const PAGE: &str = "../../docs/reference/engines.md";
/// If it is set, the page is written and not compared.
const WRITE_VARIABLE: &str = "HIVEWIRE_CONTRACT_WRITE";

/// Names the only engine to run.
const ENGINE_VARIABLE: &str = "HIVEWIRE_CONTRACT_ENGINE";

const STOMP_HIVEWIRE: &str = "stomp, hivewire";
const STOMP_RABBITMQ: &str = "stomp, rabbitmq";
const STOMP_ACTIVEMQ: &str = "stomp, activemq";

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
    let is_whole = [ENGINE_VARIABLE, GUARANTEE_VARIABLE]
        .iter()
        .all(|variable| std::env::var_os(variable).is_none());
    match is_whole {
        true => check_page(&report.page()),
        false => Ok(()),
    }
}

/// Compares the reference with what was found, or writes it if that is asked for.
fn check_page(page: &str) -> Result<()> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(PAGE);
    if std::env::var_os(WRITE_VARIABLE).is_some() {
        return std::fs::write(&path, page).context("cannot write the page");
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    ensure!(
        written == page,
        "{} does not say what was found: run `make contract`, which writes it",
        path.display()
    );
    Ok(())
}

/// Whether an engine is to be run, by its name or by what its name begins with.
fn is_wanted(engine: &str) -> bool {
    let Ok(only) = std::env::var(ENGINE_VARIABLE) else {
        return true;
    };
    let rest = engine.strip_prefix(only.as_str());
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(','))
}

async fn run() -> Result<Report> {
    let guarantees = guarantees::all();
    let mut report = Report::new(&guarantees);
    // These servers take a while to start; meanwhile the other engines run.
    let rabbitmq = is_wanted("amqp") || is_wanted("stored") || is_wanted(STOMP_RABBITMQ);
    let rabbitmq = rabbitmq.then(|| tokio::task::spawn_blocking(RabbitMq::start));
    let activemq = is_wanted(STOMP_ACTIVEMQ) || is_wanted("stored");
    let activemq = activemq.then(|| tokio::task::spawn_blocking(StompServer::activemq));
    let store = is_wanted("stored").then(|| tokio::task::spawn_blocking(start_store));
    if is_wanted("embedded") {
        let fixture = Arc::new(EmbeddedFixture::start()?);
        report.columns.push(ask_all(&guarantees, fixture).await?);
        report.controls = controls::run(&guarantees).await?;
        report.uncontrolled = controls::uncontrolled(&guarantees);
    }
    if is_wanted(STOMP_HIVEWIRE) {
        run_hivewire(&guarantees, &mut report).await?;
    }
    let store = match store {
        Some(starting) => Some(starting.await??),
        None => None,
    };
    if let Some(server) = rabbitmq {
        let server = server.await?.context("cannot start the AMQP server")?;
        let server: Server = Arc::new(Mutex::new(server));
        if is_wanted("amqp") {
            run_amqp(&guarantees, server.clone(), &mut report).await?;
        }
        if is_wanted(STOMP_RABBITMQ) {
            let fixture = Arc::new(StompFixture::direct(StompServer::RabbitMq(server.clone())));
            report.columns.push(ask_all(&guarantees, fixture).await?);
        }
        if let Some(store) = &store {
            run_stored(&guarantees, server, store, &mut report).await?;
        }
    }
    if let Some(server) = activemq {
        let server = server.await?.context("cannot start ActiveMQ")?;
        let fixture = Arc::new(StompFixture::direct(server));
        if is_wanted(STOMP_ACTIVEMQ) {
            report
                .columns
                .push(ask_all(&guarantees, fixture.clone()).await?);
        }
        if let Some(store) = store {
            let stored = StoredFixture::new("activemq + postgres", fixture, store);
            let column = ask_all(&guarantees, Arc::new(stored)).await?;
            report.columns.push(column);
        }
    }
    Ok(report)
}

async fn run_hivewire(guarantees: &[Guarantee], report: &mut Report) -> Result<()> {
    let server = tokio::task::spawn_blocking(StompServer::hivewire).await?;
    let server = server.context("cannot start a Hivewire broker")?;
    let direct = Arc::new(StompFixture::direct(server.clone()));
    report.columns.push(ask_all(guarantees, direct).await?);
    let node = Arc::new(StompFixture::node(server.clone()));
    report.columns.push(ask_all(guarantees, node).await?);
    let slow = Arc::new(StompFixture::over_slow_network(server)?);
    report.columns.push(ask_all(guarantees, slow).await?);
    Ok(())
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

async fn run_stored(
    guarantees: &[Guarantee],
    server: Server,
    store: &StoreServer,
    report: &mut Report,
) -> Result<()> {
    let stomp = StompFixture::direct(StompServer::RabbitMq(server.clone()));
    let stomp = StoredFixture::new("stomp + postgres", Arc::new(stomp), store.clone());
    let column = ask_all(guarantees, Arc::new(stomp)).await?;
    report.columns.push(column);
    let amqp = Arc::new(AmqpFixture::direct(server));
    let amqp = StoredFixture::new("amqp + postgres", amqp, store.clone());
    let fixture = Arc::new(amqp);
    report
        .columns
        .push(ask_all(guarantees, fixture.clone()).await?);
    for (name, fault) in controls::STORED {
        let guarantee = controls::find(guarantees, name)?;
        let control = controls::run_one(guarantee, fixture.clone(), *fault).await?;
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
