//! The monotonic clock, and sleeping under the deadline of the call.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use wasmtime::component::{HasData, Linker, Resource, ResourceTable};
use wasmtime_wasi::WasiView;
use wasmtime_wasi::p2::bindings::clocks::monotonic_clock::{self, Host};
use wasmtime_wasi_io::poll::{DynPollable, subscribe};

use crate::data::Data;
use crate::waiting::Alarm;

pub(super) fn add_to_linker(linker: &mut Linker<Data>) -> wasmtime::Result<()> {
    monotonic_clock::add_to_linker::<Data, Clock<'static>>(linker, |data| Clock(data.ctx().table))
}

struct Clock<'a>(&'a mut ResourceTable);

impl HasData for Clock<'static> {
    type Data<'a> = Clock<'a>;
}

/// What the guest's nanoseconds count from.
static START: LazyLock<Instant> = LazyLock::new(Instant::now);

impl Clock<'_> {
    fn alarm(&mut self, at: Option<Instant>) -> wasmtime::Result<Resource<DynPollable>> {
        let alarm = self.0.push(Alarm { at })?;
        subscribe(self.0, alarm)
    }
}

impl Host for Clock<'_> {
    fn now(&mut self) -> wasmtime::Result<monotonic_clock::Instant> {
        Ok(START.elapsed().as_nanos() as u64)
    }

    fn resolution(&mut self) -> wasmtime::Result<monotonic_clock::Duration> {
        Ok(1)
    }

    fn subscribe_instant(
        &mut self,
        when: monotonic_clock::Instant,
    ) -> wasmtime::Result<Resource<DynPollable>> {
        self.alarm(START.checked_add(Duration::from_nanos(when)))
    }

    fn subscribe_duration(
        &mut self,
        duration: monotonic_clock::Duration,
    ) -> wasmtime::Result<Resource<DynPollable>> {
        self.alarm(Instant::now().checked_add(Duration::from_nanos(duration)))
    }
}
