//! Projects in all three languages, as `hivewire new` makes them, are built from source.

use std::fs;

use build::{Language, descriptor};
use wasmparser::{ComponentTypeRef, Parser, Payload};

/// What a component needs of its host.
fn imports(component: &[u8]) -> Vec<String> {
    let mut imports = Vec::new();
    let mut depth = 0;
    for payload in Parser::new(0).parse_all(component) {
        match payload.unwrap() {
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
            Payload::End(_) if depth > 0 => depth -= 1,
            Payload::ComponentImportSection(section) if depth == 0 => {
                let section = section.into_iter().map(Result::unwrap);
                // Types are named, not needed.
                let needed =
                    section.filter(|import| !matches!(import.ty, ComponentTypeRef::Type(_)));
                imports.extend(needed.map(|import| import.name.name.to_owned()));
            }
            _ => {}
        }
    }
    imports
}

fn check(language: Language, bytes_max: usize) {
    let path = build::test_example(language).unwrap();
    let component = fs::read(path).unwrap();
    let descriptor = descriptor::read(&component).unwrap().unwrap();
    assert_eq!(descriptor.name, format!("example-{}", language.name()));
    assert_eq!(descriptor.language, language.name());
    assert_eq!(descriptor.outputs, [descriptor::Output::from("counts")]);
    assert!(component.len() < bytes_max, "{} bytes", component.len());
    let imports = imports(&component);
    let ours = |name: &String| name.starts_with("hivewire:worker/");
    assert!(
        !imports.is_empty() && imports.iter().all(ours),
        "{imports:?}"
    );
}

#[test]
fn a_new_rust_project_is_built() {
    check(Language::Rust, 100_000);
}

#[test]
fn a_new_javascript_project_is_built() {
    check(Language::Js, 15_000_000);
}

#[test]
fn a_new_python_project_is_built() {
    check(Language::Python, 25_000_000);
}
