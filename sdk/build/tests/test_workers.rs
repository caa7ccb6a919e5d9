//! The workers of `tests/workers` are built, carry their descriptors, and are small.

use std::fs;

use build::descriptor;

/// What a component of a few lines of Rust may have.
const COMPONENT_BYTES_MAX: usize = 100_000;

const WORKERS: [&str; 13] = [
    "asker",
    "bank",
    "broken-handle",
    "broken-init",
    "broken-load",
    "capability",
    "counter",
    "counter-v2",
    "echo",
    "first-router",
    "hostile",
    "parent",
    "ticker",
];

#[test]
fn all_are_small_components_with_a_descriptor_and_names() {
    for name in WORKERS {
        let path = build::test_worker(name).unwrap();
        let component = fs::read(&path).unwrap();
        let descriptor = descriptor::read(&component).unwrap().unwrap();
        assert_eq!(descriptor.name, name);
        assert_eq!(descriptor.language, "rust");
        assert!(
            component.len() < COMPONENT_BYTES_MAX,
            "{name} has {} bytes",
            component.len()
        );
    }
}
