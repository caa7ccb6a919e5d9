//! Components in the real binary: deployed, asked, looked at over REST.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::hive::Hive;
use crate::stomp_client::{AckMode, Stomp, TIMEOUT};

/// A component of `tests/workers`, built from source if need be.
pub fn component(name: &str) -> PathBuf {
    build::test_worker(name).unwrap_or_else(|error| panic!("{error}"))
}

/// The same component with another digest, as a new version without a change has it.
pub fn other_version(component: &Path, folder: &Path, version: u8) -> Result<PathBuf> {
    let mut bytes = std::fs::read(component)?;
    // A custom section: its number, the length of the rest, the length of its name, name, content.
    bytes.extend_from_slice(&[0, 6, 4, b't', b'e', b's', b't', version]);
    let path = folder.join(format!("version-{version}.wasm"));
    std::fs::write(&path, bytes)?;
    Ok(path)
}

/// Deploys a component; gives the answer, or the problem that the node found.
pub fn deploy(
    hive: &Hive,
    source: &Path,
    stage: &str,
    more: &Value,
) -> Result<std::result::Result<Value, String>> {
    let mut request = json!({ "as": stage, "source": source, "watch": false });
    let request_map = request.as_object_mut().context("it is an object")?;
    for (key, value) in more.as_object().into_iter().flatten() {
        request_map.insert(key.clone(), value.clone());
    }
    let response = hive.rest(
        "POST",
        "/api/v1/deployments",
        request.to_string().as_bytes(),
    )?;
    Ok(match response.status {
        200..300 => Ok(response.json()?),
        _ => Err(response.text()),
    })
}

/// Deploys a component that must fit.
pub fn must_deploy(hive: &Hive, source: &Path, stage: &str, more: &Value) -> Result<()> {
    match deploy(hive, source, stage, more)? {
        Ok(_) => Ok(()),
        Err(problem) => bail!("{stage} was refused: {problem}"),
    }
}

/// What a stage looks like.
pub fn stage(hive: &Hive, stage: &str) -> Result<Value> {
    let response = hive.rest("GET", &format!("/api/v1/flows/{stage}"), b"")?;
    Ok(response.json()?)
}

/// The events in the history of a stage.
pub fn events(hive: &Hive, stage: &str) -> Result<Vec<String>> {
    let path = format!("/api/v1/flows/{stage}/history");
    let history = hive.rest("GET", &path, b"")?.json()?;
    let entries = history["history"].as_array().context("a history")?;
    let event = |entry: &Value| entry["event"].as_str().unwrap_or_default().to_owned();
    Ok(entries.iter().map(event).collect())
}

/// The reasons of all dead letters.
pub fn dead_reasons(hive: &Hive) -> Result<Vec<String>> {
    let dead = hive.rest("GET", "/api/v1/dead", b"")?.json()?;
    let letters = dead["letters"]
        .as_array()
        .context("a list of dead letters")?;
    let reason = |letter: &Value| letter["reason"].as_str().unwrap_or_default().to_owned();
    Ok(letters.iter().map(reason).collect())
}

/// A client that asks a stage over STOMP.
pub struct Asker {
    stomp: Stomp,
    destination: String,
    reply_to: String,
}

impl Asker {
    /// Asks the stage with this queue; answers come to the other one.
    pub fn new(hive: &Hive, queue: &str, answers: &str) -> Result<Self> {
        let mut stomp = Stomp::connect(hive.stomp_address())?;
        stomp.subscribe("answers", &format!("/queue/{answers}"), AckMode::Auto, &[])?;
        Ok(Self {
            stomp,
            destination: format!("/queue/{queue}"),
            reply_to: format!("/queue/{answers}"),
        })
    }

    /// Asks, and waits for the answer; how long that took.
    pub fn ask(&mut self, body: &[u8]) -> Result<Duration> {
        let began = Instant::now();
        let headers = [("reply-to", self.reply_to.as_str())];
        self.stomp.send(&self.destination, &headers, body)?;
        let answer = self.stomp.next_message(TIMEOUT)?;
        if answer.body != body {
            bail!("another answer than the one that was due");
        }
        Ok(began.elapsed())
    }
}
