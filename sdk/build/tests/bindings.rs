//! The bindings in the Rust SDK are what wit-bindgen makes of the worlds. They are kept as files, so
//! that authors need neither the generator, which takes far longer to compile than a worker, nor
//! the WIT.

use std::fs;
use std::path::{Path, PathBuf};

use wit_bindgen_core::wit_parser::Resolve;
use wit_bindgen_core::{Files, WorldGenerator};
use wit_bindgen_rust::{Opts, Ownership, WithOption};

fn sdk() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The bindings of a world, with a macro named after `name`.
fn generated(world: &str, name: &str, with: Vec<(String, WithOption)>) -> String {
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_path(sdk().join("wit")).unwrap();
    let world_id = resolve.select_world(&[package], Some(world)).unwrap();
    let options = Opts {
        format: true,
        ownership: Ownership::Borrowing {
            duplicate_if_necessary: false,
        },
        pub_export_macro: true,
        export_macro_name: Some(format!("export_{name}")),
        with,
        ..Opts::default()
    };
    let mut files = Files::default();
    let mut generator = options.build();
    generator
        .generate(&mut resolve, world_id, &mut files)
        .unwrap();
    let (_, content) = files.iter().next().unwrap();
    without_imports_section(std::str::from_utf8(content).unwrap())
}

/// Leaves out the section that describes the imports. The macros bring a section that describes
/// everything, and with this one each worker would import what only routers need.
fn without_imports_section(generated: &str) -> String {
    let begin = generated.rfind("#[rustfmt::skip]\n#[cfg").unwrap();
    let end = generated.rfind("#[inline(never)]").unwrap();
    assert!(generated[begin..end].contains("-with-all-of-its-exports-removed"));
    [&generated[..begin], &generated[end..]].concat()
}

#[test]
fn the_bindings_of_the_rust_sdk_are_up_to_date() {
    let types = "super::worker::hivewire::worker::types".to_owned();
    let shared = (
        "hivewire:worker/types@1.0.0".to_owned(),
        WithOption::Path(types),
    );
    let worlds = [
        ("bulk-worker", "worker", vec![]),
        ("router", "router", vec![shared]),
    ];
    for (world, name, with) in worlds {
        let path = sdk().join("rust/src/bindings").join(format!("{name}.rs"));
        let generated = generated(world, name, with);
        if std::env::var_os("HIVEWIRE_WRITE_BINDINGS").is_some() {
            fs::write(&path, &generated).unwrap();
        }
        assert!(
            fs::read_to_string(&path).unwrap_or_default() == generated,
            "{} is out of date: HIVEWIRE_WRITE_BINDINGS=1 cargo test --release -p hivewire-build --test bindings",
            path.display()
        );
    }
}
