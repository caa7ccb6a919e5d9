//! The examples that embed Hivewire do what they say.

use std::path::Path;
use std::process::Command;

/// Examples are built beside the tests.
fn example(name: &str) -> std::path::PathBuf {
    let binary = Path::new(env!("CARGO_BIN_EXE_hivewire"));
    binary.with_file_name("examples").join(name)
}

fn run(name: &str, folder: &Path) -> String {
    let output = Command::new(example(name))
        .arg(folder.join("data"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_example_counts_over_restarts() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(run("embedded", folder.path()), "2 messages\n");
    assert_eq!(run("embedded", folder.path()), "4 messages\n");
}

#[test]
fn the_service_asks_a_stage_and_notes_what_it_says() {
    let folder = tempfile::tempdir().unwrap();
    let said = run("service", folder.path());
    assert!(said.ends_with("\nGOOD, MORNING\n"), "{said}");
    assert!(
        said.contains("exclusive") && said.contains("shared"),
        "{said}"
    );
}
