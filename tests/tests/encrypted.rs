//! Nodes whose every connection is encrypted.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hivewire_bench::peers::Certificate;
use hivewire_bench::peers::postgres::Postgres;
use hivewire_bench::peers::rabbitmq::RabbitMq;
use hivewire_tests::hive::{Hive, HiveOptions, free_address};
use hivewire_tests::nodes::node;
use hivewire_tests::poll::wait_until;
use hivewire_tests::stomp_client::Stomp;
use hivewire_tests::workers::{component, must_deploy};
use serde_json::json;

const STAGE: &str = "shop/counter";
const LARGE_BYTES: usize = 6 << 20;
const SETTLE_TIMEOUT: Duration = Duration::from_secs(30);

/// What is needed to be a node of this bus.
fn options(bus: &str, store: Option<&str>) -> HiveOptions {
    let options = node("a", bus);
    match store {
        Some(store) => options.argument("--state").argument(store),
        None => options,
    }
}

/// The configuration of a broker that speaks STOMP encrypted here.
fn encrypted_stomp(certificate: &Certificate, address: SocketAddr) -> String {
    format!(
        "[stomp]\ntls_address = \"{address}\"\ntls_certificate = {:?}\ntls_key = {:?}\n",
        certificate.certificate, certificate.key
    )
}

fn ask(node: &Hive, stage: &str, body: &str) -> Result<String> {
    let request = json!({ "messages": [{ "body": body }] }).to_string();
    let path = format!("/api/v1/asks/{stage}?timeout_ms=30000");
    Ok(node.rest("POST", &path, request.as_bytes())?.text())
}

/// Deploys a stage that counts in its state, and asks it twice.
fn must_work(node: &Hive) -> Result<()> {
    must_deploy(node, &component("counter"), STAGE, &json!({}))?;
    for count in ["1/1", "2/2"] {
        let answer = ask(node, "shop%2Fcounter", "hi")?;
        ensure!(answer == count, "{answer} instead of {count}");
    }
    Ok(())
}

/// Who speaks to somebody else than it should says so; what it says.
fn must_be_refused(bus: &str, store: Option<&str>) -> Result<String> {
    let mut node = options(bus, store).prepare()?;
    node.spawn()?;
    let refused = wait_until(SETTLE_TIMEOUT, || {
        node.log().contains("invalid peer certificate")
    });
    ensure!(refused, "it says nothing of certificates: {}", node.log());
    Ok(node.log())
}

/// The same; it has no bus then.
fn must_not_connect(bus: &str, store: Option<&str>) -> Result<()> {
    let log = must_be_refused(bus, store)?;
    ensure!(!log.contains("connected to the"), "it has a bus: {log}");
    Ok(())
}

#[test]
fn nodes_speak_encrypted_to_rabbitmq_and_postgresql_and_to_nobody_else() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let certificate = Certificate::issue(folder.path())?;
    let rabbitmq = RabbitMq::start_encrypted(&certificate)?;
    let postgres = Postgres::start_encrypted(&certificate)?;
    let (amqp, stomp) = rabbitmq
        .encrypted_addresses()
        .context("RabbitMQ has ports with TLS")?;
    let authority = certificate.authority.display();
    let store = format!("{}?sslmode=require", postgres.uri());
    let trusting = format!("{store}&sslrootcert={authority}");
    for (schema, bus) in [
        ("amqp", format!("amqps://guest:guest@{amqp}")),
        ("stomp", format!("stomp+ssl://guest:guest@{stomp}")),
    ] {
        let own_store = format!("{trusting}&schema={schema}");
        let trusted = format!("{bus}?ca={authority}");
        let own_store = Some(own_store.as_str());
        let node = options(&trusted, own_store).start()?;
        must_work(&node).with_context(|| format!("over {schema}"))?;
        // The controls: nobody vouches for the server, or only for one of another name.
        must_not_connect(&bus, own_store)?;
        must_not_connect(&trusted.replace("127.0.0.1", "localhost"), own_store)?;
        must_be_refused(&trusted, Some(&store))?;
    }
    Ok(())
}

#[test]
fn nodes_speak_encrypted_to_a_hivewire_broker() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let certificate = Certificate::issue(folder.path())?;
    let address = free_address()?;
    let broker = Hive::options()
        .config(encrypted_stomp(&certificate, address))
        .start()?;
    let bus = format!("stomp+ssl://{address}");
    let trusted = format!("{bus}?ca={}", certificate.authority.display());
    let node = options(&trusted, None).start()?;
    must_work(&node)?;
    // More than any buffer holds, there and back.
    must_deploy(&node, &component("echo"), "shop/echo", &json!({}))?;
    let body: String = (0..LARGE_BYTES / 10).map(|n| format!("{n:010}")).collect();
    let answer = ask(&node, "shop%2Fecho", &body)?;
    ensure!(answer == body, "another body: {answer:.200}");
    must_not_connect(&bus, None)?;
    must_not_connect(&trusted.replace("127.0.0.1", "localhost"), None)?;
    // Who does not encrypt is not understood.
    let plain = Stomp::connect(address);
    ensure!(plain.is_err(), "the port with TLS takes clients without");
    ensure!(broker.is_healthy(), "{}", broker.log());
    Ok(())
}
