//! The examples that people start from, run to their end: each queue holds what stands in the file
//! `expected/QUEUE.jsonl` beside the flow.

use std::path::{Path, PathBuf};

use serde_json::Value;
use tokio::task::JoinSet;

use super::rig::{Rig, assert_same};

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_string_lossy().into_owned()
}

/// The queues of an example, and what they are to hold.
fn expected(example: &Path) -> Vec<(String, Vec<Value>)> {
    let read = |file: PathBuf| {
        let text = std::fs::read_to_string(&file).unwrap();
        let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
        let queue = file.file_stem().unwrap().to_string_lossy().into_owned();
        (queue, lines.collect())
    };
    entries(&example.join("expected"))
        .into_iter()
        .map(read)
        .collect()
}

/// What would run without end, for somebody who looks, ends here, and what nobody keeps is kept.
fn ending(document: &str) -> String {
    let ending = document.replace("per_second = 80", "count = 1000");
    ending.replace("topic:", "queue:")
}

async fn run(example: PathBuf) -> usize {
    let rig = Rig::new();
    for file in entries(&example).into_iter().filter(|file| file.is_file()) {
        std::fs::copy(&file, rig.folder.join(name(&file))).unwrap();
    }
    let document = std::fs::read_to_string(example.join("flow.toml")).unwrap();
    let document = ending(&document);
    rig.run(&document).await;
    let expected = expected(&example);
    let mut found = Vec::new();
    for (queue, expected) in &expected {
        found.push(rig.take(queue, expected.len()).await);
    }
    let compared: usize = expected.iter().map(|(_, expected)| expected.len()).sum();
    for ((queue, expected), found) in expected.into_iter().zip(found) {
        assert_same(&format!("{}: {queue}", name(&example)), found, expected);
    }
    compared
}

#[tokio::test(flavor = "multi_thread")]
async fn examples_give_what_stands_beside_them() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/flows");
    let runs: JoinSet<usize> = entries(&folder).into_iter().map(run).collect();
    let compared = runs.join_all().await;
    assert!(compared.len() >= 5, "{compared:?}");
    assert!(compared.iter().all(|lines| *lines > 0), "{compared:?}");
}
