//! What is checked before a component is compiled: size, number of parts, imports and exports.

use wasmparser::{ComponentTypeRef, Encoding, Parser, Payload};

use crate::{LoadError, Settings};

/// What a component must export and may import.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum World {
    Worker,
    Router,
}

const WORKER_EXPORTS: &[&str] = &["init", "handle", "save", "load", "stop"];
const ROUTER_EXPORTS: &[&str] = &["select"];
const OUR_PACKAGE: &str = "hivewire:worker";
const OUR_MAJOR_VERSION: &str = "1";

/// The interfaces of WASI 0.2 that are linked. Without folders, sockets and variables they give
/// access to nothing but time and random numbers.
const WASI: &[&str] = &[
    "wasi:cli/",
    "wasi:clocks/",
    "wasi:filesystem/",
    "wasi:io/",
    "wasi:random/",
    "wasi:sockets/",
];

/// What packages that are not linked are for.
const CAPABILITIES: &[(&str, &str)] = &[
    ("wasi:http/outgoing-handler", "outgoing HTTP"),
    ("wasi:http/", "HTTP"),
    ("wasi:blobstore/", "a blob store"),
    ("wasi:config/", "outside configuration"),
    ("wasi:keyvalue/", "an outside key-value store"),
    ("wasi:logging/", "outside logging"),
    ("wasi:messaging/", "an outside message broker"),
    ("wasi:nn/", "neural networks"),
    ("wasi:sql/", "SQL"),
    ("wasi:tls/", "TLS"),
];

impl World {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Worker => "the world hivewire:worker/worker@1.0.0",
            Self::Router => "the world hivewire:worker/router@1.0.0",
        }
    }

    fn exports(self) -> &'static [&'static str] {
        match self {
            Self::Worker => WORKER_EXPORTS,
            Self::Router => ROUTER_EXPORTS,
        }
    }

    /// `types` and `routing` hold only types, so anybody may have them.
    fn interfaces(self) -> &'static [&'static str] {
        match self {
            Self::Worker => &[
                "types",
                "routing",
                "messages",
                "state",
                "life",
                "surroundings",
            ],
            Self::Router => &["types", "routing"],
        }
    }
}

/// What was found in a component.
#[derive(Debug, Default)]
struct Found {
    imports: Vec<String>,
    exports: Vec<String>,
    functions: u64,
    modules: u64,
    memories: u64,
    tables: u64,
    data_bytes: u64,
}

/// Checks everything that can be checked without compiling. Gives the bytes of data.
pub(crate) fn check(bytes: &[u8], world: World, settings: &Settings) -> Result<u64, LoadError> {
    check_kind(bytes, settings)?;
    let found = look_into(bytes, settings)?;
    check_imports(&found, world)?;
    check_exports(&found, world)?;
    Ok(found.data_bytes)
}

fn check_kind(bytes: &[u8], settings: &Settings) -> Result<(), LoadError> {
    if bytes.len() > settings.component_bytes_max {
        return Err(LoadError::TooLarge {
            bytes: bytes.len(),
            bytes_max: settings.component_bytes_max,
        });
    }
    if bytes.starts_with(b"\x7fELF") || bytes.starts_with(b"\xcf\xfa\xed\xfe") {
        return Err(LoadError::Precompiled);
    }
    if !bytes.starts_with(b"\0asm") {
        let begins = match bytes {
            [] => "nothing at all".to_owned(),
            _ => format!("\"{}\"", bytes[..bytes.len().min(8)].escape_ascii()),
        };
        return Err(LoadError::NotWebAssembly { begins });
    }
    if Parser::is_core_wasm(bytes) {
        return Err(LoadError::CoreModule);
    }
    Ok(())
}

/// Reads the component from end to end and counts its parts.
fn look_into(bytes: &[u8], settings: &Settings) -> Result<Found, LoadError> {
    let malformed = |error: wasmparser::BinaryReaderError| LoadError::Malformed {
        offset: error.offset(),
        reason: error.message().to_owned(),
    };
    let mut found = Found::default();
    let mut depth = 0;
    for payload in Parser::new(0).parse_all(bytes) {
        match payload.map_err(malformed)? {
            Payload::Version { encoding, .. } => {
                depth += 1;
                found.modules += u64::from(encoding == Encoding::Module);
            }
            Payload::End(_) => depth -= 1,
            Payload::FunctionSection(section) => found.functions += u64::from(section.count()),
            Payload::MemorySection(section) => found.memories += u64::from(section.count()),
            Payload::TableSection(section) => found.tables += u64::from(section.count()),
            Payload::DataSection(section) => found.data_bytes += section.range().len() as u64,
            Payload::ComponentImportSection(section) if depth == 1 => {
                for import in section {
                    let import = import.map_err(malformed)?;
                    // A type gives no access to anything.
                    if !matches!(import.ty, ComponentTypeRef::Type(_)) {
                        found.imports.push(import.name.name.to_owned());
                    }
                }
            }
            Payload::ComponentExportSection(section) if depth == 1 => {
                for export in section {
                    found
                        .exports
                        .push(export.map_err(malformed)?.name.name.to_owned());
                }
            }
            _ => {}
        }
        check_counts(&found, settings)?;
    }
    Ok(found)
}

fn check_counts(found: &Found, settings: &Settings) -> Result<(), LoadError> {
    let counts = [
        (
            "functions",
            found.functions,
            u64::from(settings.functions_max),
        ),
        (
            "core modules",
            found.modules,
            u64::from(settings.modules_max),
        ),
        ("memories", found.memories, u64::from(settings.memories_max)),
        ("tables", found.tables, u64::from(settings.tables_max)),
        (
            "bytes of data",
            found.data_bytes,
            settings.data_bytes_max as u64,
        ),
    ];
    match counts.into_iter().find(|(_, count, max)| count > max) {
        Some((what, count, count_max)) => Err(LoadError::TooMany {
            what,
            count,
            count_max,
        }),
        None => Ok(()),
    }
}

fn check_imports(found: &Found, world: World) -> Result<(), LoadError> {
    let imports: Vec<String> = found
        .imports
        .iter()
        .filter_map(|name| Some(format!("`{name}` is {}", objection(name, world)?)))
        .collect();
    match imports.is_empty() {
        true => Ok(()),
        false => Err(LoadError::Imports { imports }),
    }
}

/// What speaks against an import, if anything.
fn objection(name: &str, world: World) -> Option<String> {
    let (interface, version) = name.split_once('@').unwrap_or((name, ""));
    if let Some((package, interface)) = interface.split_once('/')
        && package == OUR_PACKAGE
    {
        return our_objection(interface, version, world);
    }
    if let Some((_, capability)) = CAPABILITIES
        .iter()
        .find(|(prefix, _)| interface.starts_with(prefix))
    {
        return Some(format!("{capability}, which is not granted"));
    }
    if WASI.iter().any(|prefix| interface.starts_with(prefix)) {
        let offered = version.starts_with("0.2.") || version == "0.2";
        return (!offered)
            .then(|| "not of WASI 0.2, the only one offered: build for wasip2".to_owned());
    }
    Some(format!("no part of {}", world.name()))
}

fn our_objection(interface: &str, version: &str, world: World) -> Option<String> {
    if version.split('.').next() != Some(OUR_MAJOR_VERSION) {
        return Some(format!(
            "of version {version}, and this host offers version {OUR_MAJOR_VERSION}"
        ));
    }
    let offered = world.interfaces().contains(&interface);
    (!offered).then(|| format!("no part of {}", world.name()))
}

fn check_exports(found: &Found, world: World) -> Result<(), LoadError> {
    let has = |name: &&str| found.exports.iter().any(|export| export == name);
    let missing: Vec<&str> = world
        .exports()
        .iter()
        .copied()
        .filter(|name| !has(name))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let other = match world {
        World::Worker => World::Router,
        World::Router => World::Worker,
    };
    let reason = if other.exports().iter().all(has) {
        format!("it is made for {}", other.name())
    } else if found.exports.is_empty() {
        "it exports nothing".to_owned()
    } else {
        format!(
            "it does not export `{}`; it exports `{}`",
            missing.join("`, `"),
            found.exports.join("`, `")
        )
    };
    Err(LoadError::Exports {
        world: world.name(),
        reason,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objections_say_what_is_missing() {
        let objection = |name: &str| objection(name, World::Worker);
        assert_eq!(objection("hivewire:worker/messages@1.0.0"), None);
        assert_eq!(objection("hivewire:worker/state@1.7.0"), None);
        assert_eq!(objection("wasi:io/poll@0.2.6"), None);
        assert_eq!(
            objection("wasi:http/outgoing-handler@0.2.3").unwrap(),
            "outgoing HTTP, which is not granted"
        );
        assert!(
            objection("hivewire:worker/messages@2.0.0")
                .unwrap()
                .contains("version 2.0.0")
        );
        assert!(
            objection("wasi:clocks/monotonic-clock@0.3.0")
                .unwrap()
                .contains("WASI 0.2")
        );
        assert!(objection("env").unwrap().contains("no part of the world"));
        assert!(objection("hivewire:worker/secrets@1.0.0").is_some());
    }

    #[test]
    fn what_is_no_component_is_named() {
        let refuse = |bytes: &[u8]| check(bytes, World::Worker, &Settings::default()).unwrap_err();
        assert!(matches!(refuse(b""), LoadError::NotWebAssembly { .. }));
        assert!(matches!(
            refuse(b"#!/bin/sh"),
            LoadError::NotWebAssembly { .. }
        ));
        assert!(matches!(refuse(b"\x7fELF"), LoadError::Precompiled));
        assert!(matches!(refuse(b"\0asm\x01\0\0\0"), LoadError::CoreModule));
        assert!(matches!(
            refuse(b"\0asm\x0d\0\x01\0\xff"),
            LoadError::Malformed { .. }
        ));
        assert!(matches!(
            refuse(b"\0asm\x0d\0\x01\0"),
            LoadError::Exports { .. }
        ));
        let small = Settings {
            component_bytes_max: 7,
            ..Settings::default()
        };
        let refused = check(b"\0asm\x0d\0\x01\0", World::Worker, &small).unwrap_err();
        assert!(matches!(refused, LoadError::TooLarge { bytes: 8, .. }));
    }
}
