//! What is no fitting component is refused, with a text that says why.

use crate::support::{HOST, component};
use wasm::{Host, HostError, LoadError, Settings};
use wasm_encoder::{
    Component, ComponentImportSection, ComponentTypeRef, ComponentTypeSection, InstanceType,
};

fn refused(bytes: &[u8]) -> LoadError {
    match HOST.load(bytes) {
        Ok(code) => panic!("{code:?} was taken"),
        Err(error) => error,
    }
}

/// A component that imports this and nothing else.
fn importing(name: &str) -> Vec<u8> {
    let mut types = ComponentTypeSection::new();
    types.instance(&InstanceType::new());
    let mut imports = ComponentImportSection::new();
    imports.import(name, ComponentTypeRef::Instance(0));
    let mut component = Component::new();
    component.section(&types).section(&imports);
    component.finish()
}

/// A host that allows less.
fn small(change: impl FnOnce(&mut Settings)) -> std::sync::Arc<Host> {
    let mut settings = Settings {
        instances_max: 10,
        ..Settings::default()
    };
    change(&mut settings);
    Host::new(settings).unwrap()
}

#[test]
fn missing_capabilities_are_named() {
    let text = refused(&importing("wasi:http/outgoing-handler@0.2.4")).to_string();
    assert!(
        text.contains("`wasi:http/outgoing-handler@0.2.4` is outgoing HTTP, which is not granted"),
        "{text}"
    );
    let text = refused(&importing("acme:shop/prices@1.0.0")).to_string();
    assert!(
        text.contains("`acme:shop/prices@1.0.0` is no part of the world"),
        "{text}"
    );
    let text = refused(&importing("hivewire:worker/messages@2.1.0")).to_string();
    assert!(
        text.contains("of version 2.1.0, and this host offers version 1"),
        "{text}"
    );
}

#[test]
fn the_wrong_world_is_named() {
    let text = refused(&component("first-router")).to_string();
    assert!(
        text.contains("it is made for the world hivewire:worker/router"),
        "{text}"
    );
    let text = HOST
        .load_router(&component("echo"))
        .unwrap_err()
        .to_string();
    assert!(text.contains("hivewire:worker/router"), "{text}");
    let text = refused(&importing("wasi:io/poll@0.2.4")).to_string();
    assert!(text.contains("it exports nothing"), "{text}");
}

#[test]
fn garbage_is_refused_wherever_it_stands() {
    assert!(matches!(
        refused(b"hello"),
        LoadError::NotWebAssembly { .. }
    ));
    assert!(matches!(refused(b"\0asm\x01\0\0\0"), LoadError::CoreModule));
    assert!(matches!(
        refused(b"\x7fELF\x02\x01\x01\0"),
        LoadError::Precompiled
    ));
    let whole = component("echo");
    for cut in (9..whole.len()).step_by(whole.len() / 40) {
        HOST.load(&whole[..cut]).expect_err("a part of a component");
    }
    for damaged in (9..whole.len()).step_by(whole.len() / 40) {
        let mut bytes = whole.clone();
        bytes[damaged] ^= 0xff;
        // Damage may hit what does not matter; then it is just another component.
        let _ = HOST.load(&bytes);
    }
    HOST.load(&whole).unwrap();
}

#[test]
fn every_limit_of_size_is_kept() {
    let echo = component("echo");
    let host = small(|settings| settings.component_bytes_max = echo.len() - 1);
    assert!(matches!(host.load(&echo), Err(LoadError::TooLarge { .. })));
    type Change = fn(&mut Settings);
    let changes: [(&str, Change); 4] = [
        ("functions", |settings| settings.functions_max = 10),
        ("core modules", |settings| settings.modules_max = 1),
        ("memories", |settings| settings.memories_max = 0),
        ("bytes of data", |settings| settings.data_bytes_max = 10),
    ];
    for (expected, change) in changes {
        match small(change).load(&echo) {
            Err(LoadError::TooMany { what, .. }) => assert_eq!(what, expected),
            other => panic!("{expected}: {other:?}"),
        }
    }
}

#[test]
fn compilation_that_takes_too_long_is_refused() {
    let host = small(|settings| settings.compile_ms_max = 0);
    let refused = host.load(&component("echo")).unwrap_err();
    assert!(
        matches!(refused, LoadError::CompileTimeout { ms_max: 0 }),
        "{refused}"
    );
}

#[test]
fn too_many_instances_are_the_hosts_fault() {
    use kernel::worker::{Code, FailureKind, InstanceLimits, Start};

    let host = small(|settings| settings.instances_max = 2);
    let code = host.load(&component("echo")).unwrap();
    let start = Start {
        address: kernel::StageAddress::new("a", "b").unwrap().worker(0),
        limits: InstanceLimits::default(),
    };
    let _two = [
        code.instantiate(&start).unwrap(),
        code.instantiate(&start).unwrap(),
    ];
    let failure = code.instantiate(&start).err().unwrap();
    assert_eq!(failure.kind, FailureKind::Host);
    assert!(failure.reason.contains("instances_max"), "{failure}");
}

#[test]
fn compiled_code_is_kept_for_the_owner_alone() {
    use std::os::unix::fs::PermissionsExt;

    let folder = tempfile::tempdir().unwrap();
    let cache = folder.path().join("code");
    let with_cache = |settings: &mut Settings| settings.cache_folder = Some(cache.clone());
    small(with_cache).load(&component("echo")).unwrap();
    let mode = std::fs::metadata(&cache).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    assert!(std::fs::read_dir(&cache).unwrap().next().is_some());
    small(with_cache).load(&component("echo")).unwrap();

    std::fs::set_permissions(&cache, PermissionsExt::from_mode(0o777)).unwrap();
    let settings = Settings {
        instances_max: 10,
        cache_folder: Some(cache.clone()),
        ..Settings::default()
    };
    let refused = Host::new(settings).unwrap_err();
    assert!(matches!(refused, HostError::Cache { .. }));
    assert!(
        refused.to_string().contains("others may write there"),
        "{refused}"
    );
}
