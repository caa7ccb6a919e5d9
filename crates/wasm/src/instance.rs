//! One instance of a component: a store with its limits, and calls into it.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use kernel::worker::{Failure, FailureKind, Start, Turn};
use wasmtime::{Engine, Store};

use crate::data::Data;
use crate::failures::{failure_of, one_line};
use crate::ticks::Ticker;

/// What every instance of this host shares.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) engine: Engine,
    pub(crate) ticker: Arc<Ticker>,
    pub(crate) stack_bytes_max: usize,
}

/// An instance whose exports are those of the world `W`. After a trap it is gone, and calls only
/// say so.
pub(crate) struct Instance<W> {
    live: Option<Live<W>>,
    /// Why it is gone.
    ended: Option<Failure>,
    stack_bytes_max: usize,
}

struct Live<W> {
    store: Store<Data>,
    world: W,
}

impl<W> Instance<W> {
    /// Makes an instance; code that runs at its start is under the same limits as a call.
    pub(crate) fn new(
        shared: &Shared,
        start: &Start,
        instantiate: impl FnOnce(&mut Store<Data>) -> wasmtime::Result<W>,
    ) -> Result<Self, Failure> {
        let data = Data::new(start, shared.ticker.clone());
        let mut store = Store::new(&shared.engine, data);
        store.limiter(|data| &mut data.memory);
        store.epoch_deadline_trap();
        // Bounds what one call of the guest may make the host copy out of its memory.
        store.set_hostcall_fuel(start.limits.memory_bytes_max);
        let ticks = store.data_mut().budget.begin();
        store.set_epoch_deadline(ticks);
        let world = match catch_unwind(AssertUnwindSafe(|| instantiate(&mut store))) {
            Ok(Ok(world)) => world,
            Ok(Err(error)) => return Err(start_failure(&error, &store, shared.stack_bytes_max)),
            Err(panic) => return Err(panicked(&*panic)),
        };
        Ok(Self {
            live: Some(Live { store, world }),
            ended: None,
            stack_bytes_max: shared.stack_bytes_max,
        })
    }

    /// Calls an export with a turn in progress. `prepare` sees the host's data before the call.
    pub(crate) fn call_in_turn<T>(
        &mut self,
        turn: &mut Turn,
        prepare: impl FnOnce(&mut Data),
        call: impl FnOnce(&W, &mut Store<Data>) -> wasmtime::Result<Result<T, String>>,
    ) -> Result<T, Failure> {
        let live = self.live()?;
        let data = live.store.data_mut();
        data.exchange(turn, true);
        data.hand_out_lines();
        prepare(data);
        let result = self.call(call);
        if let Some(live) = &mut self.live {
            let data = live.store.data_mut();
            data.hand_out_lines();
            data.exchange(turn, false);
            data.at_hand.take(0);
        }
        self.settle(result)
    }

    /// Calls an export outside of any turn.
    pub(crate) fn call_outside<T>(
        &mut self,
        call: impl FnOnce(&W, &mut Store<Data>) -> wasmtime::Result<Result<T, String>>,
    ) -> Result<T, Failure> {
        let result = self.call(call);
        self.settle(result)
    }

    /// Whether it can be called.
    pub(crate) fn is_sound(&self) -> bool {
        self.live.is_some()
    }

    fn live(&mut self) -> Result<&mut Live<W>, Failure> {
        match &mut self.live {
            Some(live) => Ok(live),
            None => Err(gone(self.ended.as_ref())),
        }
    }

    fn call<T>(
        &mut self,
        call: impl FnOnce(&W, &mut Store<Data>) -> wasmtime::Result<Result<T, String>>,
    ) -> Result<T, Failure> {
        let stack_bytes_max = self.stack_bytes_max;
        let Live { store, world } = self.live()?;
        let ticks = store.data_mut().budget.begin();
        store.set_epoch_deadline(ticks);
        // A fault of the host must not end the thread that serves other workers too.
        match catch_unwind(AssertUnwindSafe(|| call(world, store))) {
            Ok(Ok(Ok(value))) => Ok(value),
            Ok(Ok(Err(reason))) => Err(Failure::new(reason)),
            Ok(Err(error)) => Err(failure_of(&error, store.data(), stack_bytes_max)),
            Err(panic) => Err(panicked(&*panic)),
        }
    }

    /// Gives up the instance and its memory if it cannot be called again.
    fn settle<T>(&mut self, result: Result<T, Failure>) -> Result<T, Failure> {
        if let Err(failure) = &result
            && !failure.leaves_instance_sound()
            && self.live.take().is_some()
        {
            self.ended = Some(failure.clone());
        }
        result
    }
}

fn gone(ended: Option<&Failure>) -> Failure {
    let reason = match ended {
        Some(failure) => format!("the instance ended before: {failure}"),
        None => "the instance ended before".to_owned(),
    };
    Failure::of(FailureKind::Trap, reason)
}

fn panicked(panic: &(dyn Any + Send)) -> Failure {
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("a panic without text");
    Failure::of(
        FailureKind::Host,
        format!("the host of the component failed: {text}"),
    )
}

/// Without room for another instance the component is not to blame.
fn start_failure(error: &wasmtime::Error, store: &Store<Data>, stack_bytes_max: usize) -> Failure {
    if error.is::<wasmtime::PoolConcurrencyLimitError>() {
        let reason = "there is no room for another instance: let fewer workers be resident, or raise instances_max";
        return Failure::of(FailureKind::Host, reason);
    }
    if error.is::<rustix::io::Errno>() || error.is::<std::io::Error>() {
        let reason = format!(
            "the system has no room for another instance: {}; let fewer workers be resident, or raise vm.max_map_count",
            one_line(error)
        );
        return Failure::of(FailureKind::Host, reason);
    }
    failure_of(error, store.data(), stack_bytes_max)
}
