//! From an error of wasmtime to a failure that says what happened and where.

use std::fmt;
use std::num::NonZeroUsize;

use kernel::worker::{Failure, FailureKind};
use wasmtime::{Trap, WasmBacktrace};
use wasmtime_wasi::I32Exit;

use crate::data::Data;

/// Frames of the worker's code that a failure shows.
const FRAMES_SHOWN_MAX: usize = 32;

/// Frames that are looked at. Code this deep that leaves its memory has overflowed its stack.
pub(crate) const FRAMES_MAX: NonZeroUsize = NonZeroUsize::new(256).unwrap();

/// The host ends a call with this failure.
#[derive(Debug)]
pub(crate) struct Stopped(pub(crate) Failure);

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Stopped {}

/// What an error of a call means.
pub(crate) fn failure_of(error: &wasmtime::Error, data: &Data, stack_bytes_max: usize) -> Failure {
    let failure = kind_and_reason(error, data, stack_bytes_max);
    match error.downcast_ref::<WasmBacktrace>().map(backtrace) {
        Some(frames) if !frames.is_empty() => failure.with_backtrace(frames),
        _ => failure,
    }
}

fn kind_and_reason(error: &wasmtime::Error, data: &Data, stack_bytes_max: usize) -> Failure {
    if let Some(Stopped(failure)) = error.downcast_ref::<Stopped>() {
        return failure.clone();
    }
    if let Some(exit) = error.downcast_ref::<I32Exit>() {
        let reason = format!("the code ended itself with exit code {}", exit.0);
        return Failure::of(FailureKind::Trap, reason);
    }
    match error.downcast_ref::<Trap>() {
        Some(Trap::Interrupt) => data.budget.too_late().0,
        Some(Trap::StackOverflow) => {
            let reason = format!("the stack grew beyond {stack_bytes_max} bytes: call less deeply");
            Failure::of(FailureKind::Limit, reason)
        }
        // Part of the stack may lie in the memory, where its end is that of the memory.
        Some(Trap::MemoryOutOfBounds) if is_deep(error) => {
            let reason = "the stack grew beyond its part of the memory: call less deeply";
            Failure::of(FailureKind::Limit, reason)
        }
        // Code that gets no memory breaks off at once.
        _ if data.memory.exceeded => data.memory.failure(),
        Some(Trap::UnreachableCodeReached) => {
            let reason = match &data.panic {
                Some(panic) => format!("the code {}", one_text_line(panic)),
                None => "the code broke off: it panicked or aborted".to_owned(),
            };
            Failure::of(FailureKind::Trap, reason)
        }
        Some(trap) => Failure::of(FailureKind::Trap, format!("the code broke off: {trap}")),
        None => {
            let reason = format!("the code broke off: {}", one_line(error));
            Failure::of(FailureKind::Trap, reason)
        }
    }
}

fn is_deep(error: &wasmtime::Error) -> bool {
    error
        .downcast_ref::<WasmBacktrace>()
        .is_some_and(|backtrace| backtrace.frames().len() >= FRAMES_MAX.get())
}

/// The causes of an error, without the backtrace that wasmtime puts among them.
pub(crate) fn one_line(error: &wasmtime::Error) -> String {
    let texts: Vec<String> = error
        .chain()
        .map(|cause| cause.to_string())
        .filter(|text| !text.starts_with("error while executing"))
        .map(|text| one_text_line(&text))
        .collect();
    texts.join(": ")
}

fn one_text_line(text: &str) -> String {
    text.lines().map(str::trim).collect::<Vec<_>>().join(" ")
}

/// One line a frame, innermost first.
fn backtrace(backtrace: &WasmBacktrace) -> String {
    let frames = backtrace.frames();
    let mut lines: Vec<String> = frames
        .iter()
        .take(FRAMES_SHOWN_MAX)
        .map(|frame| match frame.func_name() {
            Some(name) => demangled(name),
            None => format!("function {}", frame.func_index()),
        })
        .collect();
    if frames.len() > FRAMES_SHOWN_MAX {
        lines.push("and more".to_owned());
    }
    lines.join("\n")
}

/// The name as it stands in the source.
fn demangled(name: &str) -> String {
    format!("{:#}", rustc_demangle::demangle(name))
}
