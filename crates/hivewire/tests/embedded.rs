//! The example that embeds Hivewire does what it says.

use std::path::Path;
use std::process::Command;

/// Examples are built beside the tests.
fn example() -> std::path::PathBuf {
    let binary = Path::new(env!("CARGO_BIN_EXE_hivewire"));
    binary.with_file_name("examples").join("embedded")
}

#[test]
fn the_example_counts_over_restarts() {
    let folder = tempfile::tempdir().unwrap();
    let run = || {
        let output = Command::new(example())
            .arg(folder.path().join("data"))
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(run(), "2 messages\n");
    assert_eq!(run(), "4 messages\n");
}
