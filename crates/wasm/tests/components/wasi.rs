//! What the runtimes of other languages do through WASI stays within the limits of the call.

use std::time::{Duration, Instant};

use kernel::worker::{Code, FailureKind, InstanceLimits, LogLevel};
use wasm_encoder::{
    CodeSection, ConstExpr, DataSection, EntityType, ExportKind, ExportSection, Function,
    FunctionSection, ImportSection, MemorySection, MemoryType, Module, TypeSection, ValType,
};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

use crate::support::{HOST, Running, in_time, text};

const WORKER_WIT: &str = include_str!("../../../../sdk/wit/worker.wit");

/// A worker that uses a little of WASI, as a language's runtime would.
const SLEEPER_WIT: &str = r#"
package test:sleeper;

world sleeper {
    include hivewire:worker/worker@1.0.0;
    import wasi:io/poll@0.2.0;
    import wasi:io/streams@0.2.0;
    import wasi:clocks/monotonic-clock@0.2.0;
    import wasi:cli/stdout@0.2.0;
}

package wasi:io@0.2.0 {
    interface error { resource error; }
    interface poll { resource pollable { block: func(); } }
    interface streams {
        use error.{error};
        variant stream-error { last-operation-failed(error), closed }
        resource output-stream {
            blocking-write-and-flush: func(contents: list<u8>) -> result<_, stream-error>;
        }
    }
}

package wasi:clocks@0.2.0 {
    interface monotonic-clock {
        use wasi:io/poll@0.2.0.{pollable};
        subscribe-duration: func(when: u64) -> pollable;
    }
}

package wasi:cli@0.2.0 {
    interface stdout {
        use wasi:io/streams@0.2.0.{output-stream};
        get-stdout: func() -> output-stream;
    }
}
"#;

/// Where the worker keeps its text, its results, and what it is given.
const TEXT_AT: i32 = 16;
const TEXT: &[u8] = b"hello\n";
const RESULT_AT: i32 = 64;
const GIVEN_AT: i32 = 4096;

/// A worker that writes to standard output and then sleeps, at every message.
fn sleeper(sleep: Duration) -> Vec<u8> {
    let mut resolve = Resolve::default();
    resolve.push_str("worker.wit", WORKER_WIT).unwrap();
    let package = resolve.push_str("sleeper.wit", SLEEPER_WIT).unwrap();
    let world = resolve.select_world(&[package], Some("sleeper")).unwrap();
    let mut module = sleeper_module(sleep.as_nanos() as i64);
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8, false).unwrap();
    ComponentEncoder::default()
        .module(&module)
        .and_then(|encoder| encoder.validate(true).encode())
        .unwrap()
}

fn sleeper_module(nanos: i64) -> Vec<u8> {
    use ValType::{I32, I64};

    let mut types = TypeSection::new();
    let given: u32 = 0;
    types.ty().function([I32, I32], [I32]);
    let taken: u32 = 1;
    types.ty().function([], [I32]);
    let nothing: u32 = 2;
    types.ty().function([], []);
    let realloc: u32 = 3;
    types.ty().function([I32; 4], [I32]);
    let subscribe: u32 = 4;
    types.ty().function([I64], [I32]);
    let block: u32 = 5;
    types.ty().function([I32], []);
    let write: u32 = 6;
    types.ty().function([I32; 4], []);

    let mut imports = ImportSection::new();
    for (interface, function, kind) in [
        ("wasi:cli/stdout@0.2.0", "get-stdout", taken),
        (
            "wasi:io/streams@0.2.0",
            "[method]output-stream.blocking-write-and-flush",
            write,
        ),
        (
            "wasi:clocks/monotonic-clock@0.2.0",
            "subscribe-duration",
            subscribe,
        ),
        ("wasi:io/poll@0.2.0", "[method]pollable.block", block),
    ] {
        imports.import(interface, function, EntityType::Function(kind));
    }
    const IMPORTED: u32 = 4;

    let mut functions = FunctionSection::new();
    let mut exports = ExportSection::new();
    let mut code = CodeSection::new();
    exports.export("memory", ExportKind::Memory, 0);
    for (index, (name, kind)) in [
        ("init", given),
        ("handle", given),
        ("load", given),
        ("save", taken),
        ("stop", nothing),
        ("cabi_realloc", realloc),
    ]
    .into_iter()
    .enumerate()
    {
        functions.function(kind);
        exports.export(name, ExportKind::Func, IMPORTED + index as u32);
        code.function(&body(name, nanos));
    }

    let mut memories = MemorySection::new();
    memories.memory(MemoryType {
        minimum: 2,
        maximum: None,
        memory64: false,
        shared: false,
        page_size_log2: None,
    });
    let mut data = DataSection::new();
    data.active(0, &ConstExpr::i32_const(TEXT_AT), TEXT.iter().copied());

    let mut module = Module::new();
    module
        .section(&types)
        .section(&imports)
        .section(&functions)
        .section(&memories)
        .section(&exports)
        .section(&code)
        .section(&data);
    module.finish()
}

/// Every result is zeroes: all went well, and nothing is saved.
fn body(name: &str, nanos: i64) -> Function {
    let mut function = Function::new([]);
    let mut code = function.instructions();
    if name == "handle" {
        code.call(0)
            .i32_const(TEXT_AT)
            .i32_const(TEXT.len() as i32)
            .i32_const(RESULT_AT + 32)
            .call(1);
        code.i64_const(nanos).call(2).call(3);
    }
    match name {
        "stop" => {}
        "cabi_realloc" => {
            code.i32_const(GIVEN_AT);
        }
        _ => {
            code.i32_const(RESULT_AT);
        }
    }
    code.end();
    function
}

fn limits() -> InstanceLimits {
    InstanceLimits {
        call_ms_max: 200,
        ..InstanceLimits::default()
    }
}

#[test]
fn a_sleep_beyond_the_deadline_is_ended_and_what_was_written_is_in_the_log() {
    let code = HOST.load(&sleeper(Duration::from_secs(60))).unwrap();
    let (sleeper, failure) = in_time("the sleep", Duration::from_millis(300), || {
        let mut sleeper = Running::start_with(&*code, b"", limits());
        let failure = sleeper.tell("x").unwrap_err();
        (sleeper, failure)
    });
    assert_eq!(failure.kind, FailureKind::Deadline, "{failure}");
    let lines = sleeper.memory.lines.lock().unwrap();
    assert_eq!(*lines, [(LogLevel::Info, "hello".to_owned())]);
}

#[test]
fn a_short_sleep_is_a_sleep_even_within_a_tokio_runtime() {
    let sleep = Duration::from_millis(20);
    let code = HOST.load(&sleeper(sleep)).unwrap();
    assert_eq!(code.info().name, "worker");
    let mut sleeper = Running::start_with(&*code, b"", limits());
    let start = Instant::now();
    sleeper.tell("x").unwrap();
    assert!(start.elapsed() >= sleep);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let message = [text("x")];
    runtime
        .block_on(sleeper.worker.handle(&message, &mut sleeper.turn))
        .unwrap();
    assert!(start.elapsed() >= sleep * 2);
}
