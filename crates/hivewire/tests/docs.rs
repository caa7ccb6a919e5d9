//! The reference says what the program does.

use std::path::PathBuf;
use std::process::Command;

fn page(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs/reference")
        .join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn printed(page: &str) -> String {
    let binary = env!("CARGO_BIN_EXE_hivewire");
    let output = Command::new(binary)
        .args(["internal-docs", page])
        .output()
        .unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_printed_pages_are_up_to_date() {
    let pages = [
        "cli.md",
        "configuration.md",
        "flow-schema.json",
        "openapi.json",
        "plugins.md",
        "wit.md",
    ];
    for file in pages {
        let (name, _) = file.split_once('.').unwrap();
        assert!(
            page(file) == printed(name),
            "docs/reference/{file} is out of date: hivewire internal-docs {name} > docs/reference/{file}"
        );
    }
}

#[test]
fn the_rest_page_lists_every_route_and_no_other() {
    let page = page("rest.md");
    let written: Vec<&str> = page
        .lines()
        .filter(|line| line.starts_with("| `"))
        .collect();
    let routes = hivewire::rest::ROUTES;
    for route in routes {
        let row = format!("| `{} {}` | {} |", route.method, route.path, route.summary);
        assert!(
            written.contains(&row.as_str()),
            "docs/reference/rest.md lacks the row:\n{row}"
        );
    }
    let rows = written.iter().filter(|row| row.contains(" /")).count();
    assert_eq!(
        rows,
        routes.len(),
        "docs/reference/rest.md has rows for routes that are gone"
    );
}
