//! What the compiler says to those who write handlers that cannot be.
//!
//! Each file in `tests/messages` is compiled against the crate as it was built for this test. With a file `.stderr` beside it, it
//! must be refused in these words; they are written anew if `HIVEWIRE_MESSAGES_WRITE` is set.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::{env, fs};

const WRITE: &str = "HIVEWIRE_MESSAGES_WRITE";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/messages")
}

/// The crate, as it was built last: this test was built with it.
fn built_crate(libraries: &Path) -> PathBuf {
    let files = fs::read_dir(libraries).unwrap().map(|file| file.unwrap());
    let is_it = |name: &str| name.starts_with("libweb-") && name.ends_with(".rlib");
    let found = files.filter(|file| is_it(&file.file_name().to_string_lossy()));
    let newest = found.max_by_key(|file| file.metadata().unwrap().modified().unwrap());
    newest.expect("the crate was built").path()
}

fn compile(file: &Path) -> Output {
    let test = env::current_exe().unwrap();
    let libraries = test.parent().unwrap();
    let compiler = env::var_os("RUSTC").unwrap_or("rustc".into());
    let name = file.file_stem().unwrap();
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    Command::new(compiler)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(["--edition=2024", "--emit=metadata", "--color=never", "-o"])
        .arg(out)
        .arg("-L")
        .arg(format!("dependency={}", libraries.display()))
        .arg("--extern")
        .arg(format!("web={}", built_crate(libraries).display()))
        .arg(file.strip_prefix(env!("CARGO_MANIFEST_DIR")).unwrap())
        .output()
        .unwrap()
}

/// What was said, without what has nothing to do with the message: where lines of the crate stand, and how much there is of others.
fn said(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let end = text.find("error: aborting due to").unwrap_or(text.len());
    let lines = text[..end].trim_end().lines().map(plain);
    lines.collect::<Vec<_>>().join("\n") + "\n"
}

fn plain(line: &str) -> String {
    let rest = line.trim_start();
    if let Some(place) = rest.strip_prefix("--> ").or(rest.strip_prefix("::: ")) {
        let place = place.rsplit("crates/web/").next().unwrap_or(place);
        let file = place.split(':').next().unwrap_or(place);
        return format!("  --> {file}");
    }
    if let Some(count) = rest.strip_prefix("and ")
        && count.ends_with(" others")
    {
        return "             and others".to_owned();
    }
    let code = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    match code.trim_start() {
        code if code.starts_with('|') => format!("   {code}").trim_end().to_owned(),
        note if note.starts_with('=') => format!("   {note}"),
        _ => line.to_owned(),
    }
}

#[test]
fn wrong_handlers_are_explained() {
    let files = fs::read_dir(folder()).unwrap();
    let files = files.map(|file| file.unwrap().path());
    let (mut refused, mut fine, mut wrong) = (0, 0, Vec::new());
    for file in files.filter(|file| file.extension().is_some_and(|kind| kind == "rs")) {
        let output = compile(&file);
        let (said, expected) = (said(&output), file.with_extension("stderr"));
        if file.ends_with("fine.rs") {
            assert!(output.status.success(), "the control is refused:\n{said}");
            fine += 1;
            continue;
        }
        assert!(!output.status.success(), "{} compiles", file.display());
        if env::var_os(WRITE).is_some() {
            fs::write(&expected, &said).unwrap();
        }
        refused += 1;
        let expected = fs::read_to_string(&expected).unwrap_or_default();
        if said != expected {
            wrong.push(format!(
                "{} is refused with\n{said}\ninstead of\n{expected}",
                file.display()
            ));
        }
    }
    assert_eq!(fine, 1, "the control is there");
    assert!(refused >= 5, "only {refused} of them");
    assert!(
        wrong.is_empty(),
        "{}\n{WRITE}=1 writes what is said now",
        wrong.join("\n")
    );
}
