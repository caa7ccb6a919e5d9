//! The spider crate, in a process of its own, built apart from everything else.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::Crawled;
use super::served::Served;
use crate::peers::program::output_of;
use crate::peers::{PeerError, Result};

const PATIENCE: Duration = Duration::from_secs(600);
/// It has several hundred dependencies.
const BUILD_PATIENCE: Duration = Duration::from_secs(3_600);

/// Crawls the first host of a site. It is built if need be.
pub fn crawl(site: &Served) -> Result<Crawled> {
    let mut command = Command::new(build()?);
    command.arg(&site.urls()[0]);
    let text = output_of("spider", command, PATIENCE)?;
    Crawled::read(&text).ok_or_else(|| PeerError::UnexpectedAnswer {
        peer: "spider".to_owned(),
        answer: text,
    })
}

fn build() -> Result<std::path::PathBuf> {
    let bench = Path::new(env!("CARGO_MANIFEST_DIR"));
    let target = bench.parent().unwrap_or(bench).join("target/spider");
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command
        .args([
            "build",
            "--release",
            "--locked",
            "--quiet",
            "--manifest-path",
        ])
        .arg(bench.join("peers/spider/Cargo.toml"))
        .arg("--target-dir")
        .arg(&target);
    output_of("cargo", command, BUILD_PATIENCE)?;
    Ok(target.join("release/spider-peer"))
}
