//! WARC files, read by a program of others.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use hivewire_tests::crawl::{self, LOCAL};
use hivewire_tests::hive::Hive;
use hivewire_tests::http;
use hivewire_tests::site::Site;
use serde_json::Value;

use crate::{FLOW, ONE_AT_A_TIME};

/// Prints a line for each answer in the WARC files of a folder.
const READER: &str = r#"
import hashlib, json, pathlib, sys
from warcio.archiveiterator import ArchiveIterator
for path in sorted(pathlib.Path(sys.argv[1]).rglob("*.warc*")):
    with open(path, "rb") as file:
        for record in ArchiveIterator(file, check_digests="raise"):
            if record.rec_type != "response":
                continue
            body = record.content_stream().read()
            print(json.dumps({
                "url": record.rec_headers.get_header("WARC-Target-URI"),
                "status": record.http_headers.get_statuscode(),
                "sha256": hashlib.sha256(body).hexdigest(),
                "bytes": len(body),
            }))
"#;

pub(crate) fn read(folder: &Path) -> Result<Vec<Value>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = root.parent().context("the tests are in a folder")?;
    let output = Command::new(root.join(".tools/venv/bin/python"))
        .args(["-c", READER])
        .arg(folder)
        .output()
        .context("warcio is needed: run tests/tools/install test")?;
    let problem = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{problem}");
    let text = String::from_utf8(output.stdout)?;
    let lines = text.lines().map(serde_json::from_str);
    Ok(lines.collect::<Result<_, _>>()?)
}

#[test]
fn the_archive_has_every_answer_as_it_came() -> Result<()> {
    let _alone = ONE_AT_A_TIME.lock();
    let site = Site::options().pages(80).start()?;
    let hive = Hive::start()?;
    let url = site.url("/");
    let arguments = [&["crawl", &url, "--name", FLOW, "--warc"], &LOCAL[..]].concat();
    crawl::run_json(&hive, &arguments)?;
    let counts = site.log().counts();
    // The last file is finished in good order.
    let files = hive.data().join("files");
    let mut hive = hive;
    hive.terminate()?;
    let mut records: BTreeMap<String, Value> = BTreeMap::new();
    for record in read(&files)? {
        let url = record["url"].as_str().context("a URL")?.to_owned();
        ensure!(
            records.insert(url, record).is_none(),
            "a page is there twice"
        );
    }
    for page in site.clean_pages() {
        let record = records.get(&format!("http://{page}"));
        let record = record.with_context(|| format!("{page} is not in the archive"))?;
        assert_eq!(record["status"], "200", "{record}");
        let (host, path) = page.split_at(page.find('/').context("a path")?);
        let answer = http::request(host.parse()?, "GET", path, &[], b"")?;
        assert_eq!(record["bytes"], answer.body.len(), "{page}");
    }
    for page in counts.keys() {
        assert!(records.contains_key(&format!("http://{page}")), "{page}");
    }
    Ok(())
}
