//! Archives, read by warcio and by ourselves.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use crawl::warc::{Exchange, WarcError, WarcReader, WarcRecord, WarcSettings, WarcWriter, repair};
use serde_json::Value;

fn exchange(number: u32) -> Exchange {
    let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    Exchange {
        url: format!("https://example.com/pages/{number}?q=ä&n={number}"),
        fetched_at: 1_800_000_000_123 + i64::from(number) * 1_000,
        request_headers: number.is_multiple_of(2).then(|| {
            vec![
                header("host", "example.com"),
                header("user-agent", "hivewire"),
            ]
        }),
        status: [200, 404, 200, 599][number as usize % 4],
        headers: vec![
            header("content-type", "text/html; charset=utf-8"),
            header("content-encoding", "gzip"),
            header("transfer-encoding", "chunked"),
            header("content-length", "17"),
            header("x-evil", "a\r\nx-injected: yes"),
        ],
        body: body(number),
        metadata: match number % 3 {
            0 => vec![
                header("via", "https://example.com/"),
                header("hopsFromSeed", "2"),
            ],
            _ => Vec::new(),
        },
    }
}

/// Some are empty, some are noise, some look like records.
fn body(number: u32) -> Bytes {
    match number % 5 {
        0 => Bytes::from(format!("<p>page {number} 🐝</p>").repeat(500)),
        1 => (0..40_000 + number).map(|_| fastrand::u8(..)).collect(),
        2 => Bytes::new(),
        3 => Bytes::from(format!("WARC/1.1\r\n\r\n{number}\r\n\r\n\r\n")),
        _ => Bytes::from(format!("{number}")),
    }
}

fn records(files: &[PathBuf]) -> Vec<WarcRecord> {
    let mut records = Vec::new();
    for file in files {
        let mut reader = WarcReader::open(file).unwrap();
        while let Some(record) = reader.next_record().unwrap() {
            records.push(record);
        }
    }
    records
}

/// What warcio reads in these files; nothing if it is not installed here.
fn read_by_warcio(files: &[PathBuf]) -> Option<Vec<Value>> {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let python = crate_folder.join("../../.tools/venv/bin/python");
    let mut check = Command::new(&python);
    let has = check
        .args(["-c", "import warcio"])
        .stderr(Stdio::null())
        .status();
    if !has.is_ok_and(|status| status.success()) {
        eprintln!(
            "SKIPPED: {} has no warcio, so archives are not read back with it; run tests/tools/install test",
            python.display()
        );
        return None;
    }
    let mut read = Command::new(python);
    read.arg(crate_folder.join("tests/warc/read.py"))
        .args(files);
    let output = read.stderr(Stdio::inherit()).output().unwrap();
    assert!(output.status.success(), "warcio found something wrong");
    let lines = output
        .stdout
        .lines()
        .map(|line| serde_json::from_str(&line.unwrap()).unwrap());
    Some(lines.collect())
}

fn header<'a>(headers: &'a Value, name: &str) -> Option<&'a str> {
    let pairs = headers.as_array().unwrap().iter();
    let mut found = pairs.filter(|pair| pair[0].as_str().unwrap().eq_ignore_ascii_case(name));
    let value = found.next().map(|pair| pair[1].as_str().unwrap());
    assert!(found.next().is_none(), "{name} is there twice");
    value
}

#[test]
fn all_records_are_read_back_by_warcio_as_they_were_written() {
    let folder = tempfile::tempdir().unwrap();
    let mut settings = WarcSettings::of(folder.path());
    settings.file_bytes_max = 200_000;
    settings.about = vec![("isPartOf".to_owned(), "a test".to_owned())];
    let mut writer = WarcWriter::new(settings);
    let exchanges: Vec<Exchange> = (0..60).map(exchange).collect();
    for batch in exchanges.chunks(7) {
        writer.write(batch).unwrap();
    }
    let files = writer.finish().unwrap();
    assert!(files.len() > 2, "{files:?}");
    let ours = records(&files);
    let Some(theirs) = read_by_warcio(&files) else {
        return;
    };
    assert_eq!(ours.len(), theirs.len());
    let mut expected = exchanges.iter();
    let (mut position, mut infos) = (0, 0);
    while position < theirs.len() {
        let record = &theirs[position];
        if header(&record["headers"], "warc-type") == Some("warcinfo") {
            infos += 1;
            position += 1;
            let content = content(record);
            assert!(content.starts_with(b"software: hivewire/"), "{record}");
            assert!(content.ends_with(b"isPartOf: a test\r\n"), "{record}");
            continue;
        }
        position += same(&theirs[position..], expected.next().unwrap());
    }
    assert!(expected.next().is_none());
    assert_eq!(infos, files.len());
}

fn content(record: &Value) -> Vec<u8> {
    BASE64_STANDARD
        .decode(record["content"].as_str().unwrap())
        .unwrap()
}

/// Compares the records of an exchange, and says how many they are.
fn same(records: &[Value], exchange: &Exchange) -> usize {
    let answer = &records[0];
    let of = |name: &str| header(&answer["headers"], name);
    let of_http = |name: &str| header(&answer["http_headers"], name);
    assert_eq!(of("warc-type"), Some("response"));
    assert_eq!(of("warc-target-uri"), Some(exchange.url.as_str()));
    let seconds = (exchange.fetched_at / 1_000) % 60;
    assert!(
        of("warc-date")
            .unwrap()
            .ends_with(&format!(":{seconds:02}.123Z")),
        "{answer}"
    );
    let first_line = answer["first_line"].as_str().unwrap();
    assert!(
        first_line.starts_with(&format!("HTTP/1.1 {}", exchange.status)),
        "{first_line}"
    );
    // Decoded by what its headers say, it is still the body.
    assert_eq!(content(answer), exchange.body);
    assert_eq!(
        of_http("content-length"),
        Some(exchange.body.len().to_string().as_str())
    );
    assert_eq!(of_http("content-encoding"), None);
    assert_eq!(of_http("x-orig-content-encoding"), Some("gzip"));
    assert_eq!(of_http("x-orig-transfer-encoding"), Some("chunked"));
    assert_eq!(of_http("x-orig-content-length"), Some("17"));
    assert_eq!(of_http("x-injected"), None);
    assert_eq!(of_http("content-type"), Some("text/html; charset=utf-8"));
    assert!(of("warc-block-digest").is_some() && of("warc-payload-digest").is_some());

    let mut next = 1;
    if let Some(sent) = &exchange.request_headers {
        let request = &records[next];
        assert_eq!(header(&request["headers"], "warc-type"), Some("request"));
        assert_eq!(
            header(&request["headers"], "warc-concurrent-to"),
            of("warc-record-id")
        );
        let line = request["first_line"].as_str().unwrap();
        assert!(
            line.starts_with("GET /pages/") && line.ends_with("HTTP/1.1"),
            "{line}"
        );
        for (name, value) in sent {
            assert_eq!(header(&request["http_headers"], name), Some(value.as_str()));
        }
        next += 1;
    }
    if !exchange.metadata.is_empty() {
        let metadata = &records[next];
        assert_eq!(header(&metadata["headers"], "warc-type"), Some("metadata"));
        assert_eq!(
            header(&metadata["headers"], "warc-concurrent-to"),
            of("warc-record-id")
        );
        assert_eq!(
            content(metadata),
            b"via: https://example.com/\r\nhopsFromSeed: 2\r\n"
        );
        next += 1;
    }
    next
}

#[test]
fn the_same_body_is_archived_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = WarcWriter::new(WarcSettings::of(folder.path()));
    let again = Exchange {
        fetched_at: exchange(0).fetched_at + 60_000,
        ..exchange(0)
    };
    let not_modified = Exchange {
        status: 304,
        body: Bytes::new(),
        ..exchange(0)
    };
    // Two in one batch, one in the next, and the empty body of 2, which says nothing.
    writer
        .write(&[exchange(0), again.clone(), exchange(2)])
        .unwrap();
    writer.write(&[again, not_modified, exchange(2)]).unwrap();
    let files = writer.finish().unwrap();
    let records = records(&files);
    let answers = records.iter().filter(|record| record.kind() != "request");
    let answers: Vec<&WarcRecord> = answers.filter(|record| record.http().is_some()).collect();
    let kinds: Vec<&str> = answers.iter().map(|record| record.kind()).collect();
    assert_eq!(
        kinds,
        [
            "response", "revisit", "response", "revisit", "revisit", "response"
        ]
    );
    let first = answers[0];
    for revisit in [answers[1], answers[3]] {
        assert!(
            revisit
                .header("warc-profile")
                .unwrap()
                .ends_with("identical-payload-digest")
        );
        assert_eq!(
            revisit.header("warc-refers-to"),
            first.header("warc-record-id")
        );
        assert_eq!(
            revisit.header("warc-refers-to-date"),
            first.header("warc-date")
        );
        assert_eq!(revisit.header("warc-refers-to-target-uri"), first.target());
        assert_eq!(
            revisit.header("warc-payload-digest"),
            first.header("warc-payload-digest")
        );
        assert_eq!(revisit.http().unwrap().body, b"");
        assert_eq!(revisit.http().unwrap().status(), Some(200));
    }
    assert!(
        answers[4]
            .header("warc-profile")
            .unwrap()
            .ends_with("server-not-modified")
    );
    if let Some(theirs) = read_by_warcio(&files) {
        assert_eq!(theirs.len(), records.len());
    }
}

#[test]
fn a_torn_file_is_cut_at_a_whole_record() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = WarcWriter::new(WarcSettings::of(folder.path()));
    let small: Vec<Exchange> = [3, 4, 9, 13].map(exchange).to_vec();
    writer.write(&small).unwrap();
    let file = writer.finish().unwrap().remove(0);
    let whole = std::fs::read(&file).unwrap();
    let all = records(std::slice::from_ref(&file));
    std::fs::remove_file(&file).unwrap();
    let torn = PathBuf::from(format!("{}.open", file.display()));
    // Each length is tried where no disk is waited for, in the tests of the module.
    for length in (fastrand::usize(0..100)..whole.len()).step_by(100) {
        std::fs::write(&torn, &whole[..length]).unwrap();
        let repaired = repair(folder.path(), "crawl").unwrap().remove(0);
        assert!(!torn.exists());
        match repaired.file {
            Some(kept) => {
                let left = records(std::slice::from_ref(&kept));
                assert_eq!(left.len() as u64, repaired.records);
                for (one, other) in left.iter().zip(&all) {
                    assert_eq!((&one.headers, &one.block), (&other.headers, &other.block));
                }
                std::fs::remove_file(kept).unwrap();
            }
            None => assert_eq!(repaired.records, 0),
        }
        assert!(repaired.records < all.len() as u64);
    }
    // A page that the disk lost in the middle.
    let mut holed = whole.clone();
    let middle = whole.len() / 2;
    holed[middle..middle + 64].fill(0);
    std::fs::write(&torn, holed).unwrap();
    let repaired = repair(folder.path(), "crawl").unwrap().remove(0);
    assert!(repaired.records < all.len() as u64 && repaired.cut_bytes > 0);
}

const FOLDER: &str = "CRAWL_WARC_TEST_FOLDER";

/// What the other process does. Started by itself, it does nothing.
#[test]
fn child_archives_until_it_is_killed() {
    let Ok(folder) = std::env::var(FOLDER) else {
        return;
    };
    let mut settings = WarcSettings::of(Path::new(&folder));
    settings.file_bytes_max = 3_000_000;
    let mut writer = WarcWriter::new(settings);
    for batch in 0.. {
        let exchanges: Vec<Exchange> = (batch * 10..batch * 10 + 10).map(exchange).collect();
        writer.write(&exchanges).unwrap();
        println!("archived {batch}");
        std::io::stdout().flush().unwrap();
    }
}

#[test]
fn a_killed_writer_leaves_all_that_it_said_were_archived() {
    for round in 0..6 {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([
            "--exact",
            "child_archives_until_it_is_killed",
            "--nocapture",
        ]);
        command.env(FOLDER, folder.path()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut lines = lines
            .map_while(Result::ok)
            .filter(|line| line.contains("archived "));
        let mut told = lines.by_ref().take(1 + round).count();
        // While somebody writes it, nobody repairs it.
        assert_eq!(repair(folder.path(), "crawl").unwrap(), []);
        let (begin, pause) = (
            Instant::now(),
            Duration::from_micros(fastrand::u64(0..20_000)),
        );
        while begin.elapsed() < pause {
            std::thread::yield_now();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        told += lines.count();
        repair(folder.path(), "crawl").unwrap();
        let files = std::fs::read_dir(folder.path()).unwrap();
        let files: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
        let records = records(&files);
        for number in 0..told as u32 * 10 {
            let url = exchange(number).url;
            let is_there = records.iter().any(|record| record.target() == Some(&url));
            assert!(is_there, "{url} was archived and is not there");
        }
        if let Some(theirs) = read_by_warcio(&files) {
            assert_eq!(theirs.len(), records.len());
        }
    }
}

#[test]
fn a_reader_is_bounded_and_tells_what_is_wrong() {
    let read = |bytes: &[u8]| {
        let mut reader = WarcReader::new(bytes).unwrap().with_block_bytes_max(10);
        reader.next_record().map(|_| reader.next_record().map(drop))
    };
    let long = format!(
        "WARC/1.0\r\nContent-Length: 100000\r\n\r\n{}\r\n\r\n",
        "x".repeat(100_000)
    );
    let mut reader = WarcReader::new(long.as_bytes())
        .unwrap()
        .with_block_bytes_max(10);
    let record = reader.next_record().unwrap().unwrap();
    assert!(record.is_cut && record.block == b"xxxxxxxxxx");
    assert!(reader.next_record().unwrap().is_none());

    let endless = std::io::repeat(b'a').take(1 << 30);
    let mut reader = WarcReader::new(BufReader::new(endless)).unwrap();
    assert!(matches!(
        reader.next_record(),
        Err(WarcError::Broken { .. })
    ));
    for wrong in [
        "HTTP/1.1 200 OK\r\n\r\n",
        "WARC/1.1\r\n\r\n",
        "WARC/1.1\r\nContent-Length: -1\r\n\r\n",
        "WARC/1.1\r\nContent-Length: 18446744073709551615\r\n\r\n",
        "WARC/1.1\r\nno name\r\n\r\n",
        "WARC/1.1\r\nContent-Length: 5\r\n\r\nabc",
        "\u{1f}\u{8b}",
    ] {
        assert!(
            matches!(read(wrong.as_bytes()), Err(WarcError::Broken { .. })),
            "{wrong:?}"
        );
    }
    assert!(matches!(
        read(&[0x1f, 0x8b, 8, 0, 0]),
        Err(WarcError::Broken { .. })
    ));
    assert!(
        WarcReader::new(&b""[..])
            .unwrap()
            .next_record()
            .unwrap()
            .is_none()
    );
}
