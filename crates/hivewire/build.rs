//! Puts the studio, as `make build` leaves it in `studio/dist`, into the binary: each file as it is and, where that is
//! smaller, compressed. Without it the binary holds one page that says so.

use std::env;
use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;

/// What a browser opens first.
const INDEX: &str = "index.html";
/// Where everything else lies.
const ASSETS: &str = "assets";
/// What compression must save to be worth it, in percent.
const SAVED_PERCENT_MIN: usize = 10;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("../..");
    let dist = root.join("studio/dist");
    // What is not there would be looked for with every build; a folder is looked into.
    if dist.is_dir() || fs::create_dir_all(&dist).is_ok() {
        println!("cargo::rerun-if-changed={}", dist.display());
    }
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let table = table(&dist, &out)?;
    fs::write(out.join("studio.rs"), table)?;
    Ok(())
}

/// The table of files, as an expression.
fn table(dist: &Path, out: &Path) -> Result<String, Box<dyn Error>> {
    let mut table = String::from("&[\n");
    let index = dist.join(INDEX);
    if index.is_file() {
        table.push_str(&row("/", &index, out, 0)?);
        let mut assets = files(&dist.join(ASSETS))?;
        assets.sort();
        for (number, asset) in assets.iter().enumerate() {
            let name = asset.file_name().and_then(|name| name.to_str());
            let name = name.ok_or("the name of an asset of the studio is no text")?;
            let path = format!("/{ASSETS}/{name}");
            table.push_str(&row(&path, asset, out, number + 1)?);
        }
        for other in files(dist)?.iter().filter(|file| **file != index) {
            println!(
                "cargo::warning={} is not served: nothing but {INDEX} and {ASSETS}/ is",
                other.display()
            );
        }
    }
    table.push(']');
    Ok(table)
}

fn files(folder: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let is_hidden = path.file_name().is_some_and(|name| {
            let name = name.to_string_lossy();
            name.starts_with('.')
        });
        if path.is_file() && !is_hidden {
            files.push(path);
        }
    }
    Ok(files)
}

fn row(path: &str, file: &Path, out: &Path, number: usize) -> Result<String, Box<dyn Error>> {
    let bytes = fs::read(file)?;
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(&bytes)?;
    let packed = encoder.finish()?;
    let gzip = match packed.len() * 100 <= bytes.len() * (100 - SAVED_PERCENT_MIN) {
        true => {
            let packed_at = out.join(format!("studio-{number}.gz"));
            fs::write(&packed_at, packed)?;
            format!("Some(include_bytes!({packed_at:?}))")
        }
        false => "None".to_owned(),
    };
    // The studio may be built anew while the binary is compiled: what is put in is a copy.
    let copied_at = out.join(format!("studio-{number}"));
    fs::write(&copied_at, &bytes)?;
    let mut row = String::new();
    writeln!(
        row,
        "    StudioFile {{ path: {path:?}, content_type: {:?}, bytes: include_bytes!({:?}), gzip: {gzip} }},",
        content_type(file),
        copied_at,
    )?;
    Ok(row)
}

fn content_type(file: &Path) -> &'static str {
    let extension = file.extension().and_then(|extension| extension.to_str());
    match extension.unwrap_or_default() {
        "css" => "text/css; charset=utf-8",
        "html" => "text/html; charset=utf-8",
        "ico" => "image/x-icon",
        "jpg" | "jpeg" => "image/jpeg",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "json" | "map" => "application/json",
        "png" => "image/png",
        "svg" => "image/svg+xml",
        "txt" => "text/plain; charset=utf-8",
        "wasm" => "application/wasm",
        "webp" => "image/webp",
        "woff2" => "font/woff2",
        _ => "application/octet-stream",
    }
}
