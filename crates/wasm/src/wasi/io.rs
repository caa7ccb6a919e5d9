//! Streams and polling, under the deadline of the call.

use wasmtime::component::{HasData, Linker, Resource, ResourceTable};
use wasmtime_wasi::WasiView;
use wasmtime_wasi::p2::bindings::sync::io::{poll, streams};
use wasmtime_wasi_io::bindings::wasi::io::{
    error, poll as waiting_poll, streams as waiting_streams,
};
use wasmtime_wasi_io::poll::DynPollable;
use wasmtime_wasi_io::streams::{DynInputStream, DynOutputStream, StreamError, StreamResult};

use crate::data::{Budget, Data};
use crate::waiting::wait;

pub(super) fn add_to_linker(linker: &mut Linker<Data>) -> wasmtime::Result<()> {
    error::add_to_linker::<Data, Table>(linker, |data| data.ctx().table)?;
    poll::add_to_linker::<Data, Io<'static>>(linker, io)?;
    streams::add_to_linker::<Data, Io<'static>>(linker, io)
}

fn io(data: &mut Data) -> Io<'_> {
    // Makes the table if there is none yet.
    data.ctx();
    let wasi = data.wasi.as_mut().expect("it was just made");
    Io {
        table: &mut wasi.table,
        budget: &mut data.budget,
    }
}

struct Table;

impl HasData for Table {
    type Data<'a> = &'a mut ResourceTable;
}

/// Streams and pollables of an instance, and how long they may be waited for.
struct Io<'a> {
    table: &'a mut ResourceTable,
    budget: &'a mut Budget,
}

impl HasData for Io<'static> {
    type Data<'a> = Io<'a>;
}

impl Io<'_> {
    /// Waits for what may take as long as the call still has.
    fn wait<T>(
        &mut self,
        future: impl AsyncFnOnce(&mut ResourceTable) -> wasmtime::Result<T>,
    ) -> wasmtime::Result<T> {
        self.budget.host_call()?;
        let time_left = self.budget.time_left();
        match wait(future(self.table), time_left) {
            Some(output) => output,
            None => Err(self.budget.too_late().into()),
        }
    }

    /// The same for a stream.
    fn wait_stream<T>(
        &mut self,
        future: impl AsyncFnOnce(&mut ResourceTable) -> StreamResult<T>,
    ) -> StreamResult<T> {
        self.budget.host_call().map_err(trap)?;
        let time_left = self.budget.time_left();
        match wait(future(self.table), time_left) {
            Some(output) => output,
            None => Err(trap(self.budget.too_late())),
        }
    }
}

fn trap(stopped: crate::failures::Stopped) -> StreamError {
    StreamError::Trap(stopped.into())
}

impl poll::Host for Io<'_> {
    fn poll(&mut self, pollables: Vec<Resource<DynPollable>>) -> wasmtime::Result<Vec<u32>> {
        self.wait(async |table| waiting_poll::Host::poll(table, pollables).await)
    }
}

impl poll::HostPollable for Io<'_> {
    fn ready(&mut self, pollable: Resource<DynPollable>) -> wasmtime::Result<bool> {
        self.wait(async |table| waiting_poll::HostPollable::ready(table, pollable).await)
    }

    fn block(&mut self, pollable: Resource<DynPollable>) -> wasmtime::Result<()> {
        self.wait(async |table| waiting_poll::HostPollable::block(table, pollable).await)
    }

    fn drop(&mut self, pollable: Resource<DynPollable>) -> wasmtime::Result<()> {
        waiting_poll::HostPollable::drop(self.table, pollable)
    }
}

impl streams::Host for Io<'_> {
    fn convert_stream_error(&mut self, err: StreamError) -> wasmtime::Result<streams::StreamError> {
        Ok(waiting_streams::Host::convert_stream_error(self.table, err)?.into())
    }
}

impl streams::HostOutputStream for Io<'_> {
    fn drop(&mut self, stream: Resource<DynOutputStream>) -> wasmtime::Result<()> {
        self.wait(async |table| waiting_streams::HostOutputStream::drop(table, stream).await)
    }

    fn check_write(&mut self, stream: Resource<DynOutputStream>) -> StreamResult<u64> {
        waiting_streams::HostOutputStream::check_write(self.table, stream)
    }

    fn write(&mut self, stream: Resource<DynOutputStream>, bytes: Vec<u8>) -> StreamResult<()> {
        waiting_streams::HostOutputStream::write(self.table, stream, bytes)
    }

    fn blocking_write_and_flush(
        &mut self,
        stream: Resource<DynOutputStream>,
        bytes: Vec<u8>,
    ) -> StreamResult<()> {
        self.wait_stream(async |table| {
            waiting_streams::HostOutputStream::blocking_write_and_flush(table, stream, bytes).await
        })
    }

    fn blocking_write_zeroes_and_flush(
        &mut self,
        stream: Resource<DynOutputStream>,
        len: u64,
    ) -> StreamResult<()> {
        self.wait_stream(async |table| {
            waiting_streams::HostOutputStream::blocking_write_zeroes_and_flush(table, stream, len)
                .await
        })
    }

    fn subscribe(
        &mut self,
        stream: Resource<DynOutputStream>,
    ) -> wasmtime::Result<Resource<DynPollable>> {
        waiting_streams::HostOutputStream::subscribe(self.table, stream)
    }

    fn write_zeroes(&mut self, stream: Resource<DynOutputStream>, len: u64) -> StreamResult<()> {
        waiting_streams::HostOutputStream::write_zeroes(self.table, stream, len)
    }

    fn flush(&mut self, stream: Resource<DynOutputStream>) -> StreamResult<()> {
        waiting_streams::HostOutputStream::flush(self.table, stream)
    }

    fn blocking_flush(&mut self, stream: Resource<DynOutputStream>) -> StreamResult<()> {
        self.wait_stream(async |table| {
            waiting_streams::HostOutputStream::blocking_flush(table, stream).await
        })
    }

    fn splice(
        &mut self,
        stream: Resource<DynOutputStream>,
        source: Resource<DynInputStream>,
        len: u64,
    ) -> StreamResult<u64> {
        waiting_streams::HostOutputStream::splice(self.table, stream, source, len)
    }

    fn blocking_splice(
        &mut self,
        stream: Resource<DynOutputStream>,
        source: Resource<DynInputStream>,
        len: u64,
    ) -> StreamResult<u64> {
        self.wait_stream(async |table| {
            waiting_streams::HostOutputStream::blocking_splice(table, stream, source, len).await
        })
    }
}

impl streams::HostInputStream for Io<'_> {
    fn drop(&mut self, stream: Resource<DynInputStream>) -> wasmtime::Result<()> {
        self.wait(async |table| waiting_streams::HostInputStream::drop(table, stream).await)
    }

    fn read(&mut self, stream: Resource<DynInputStream>, len: u64) -> StreamResult<Vec<u8>> {
        waiting_streams::HostInputStream::read(self.table, stream, len)
    }

    fn blocking_read(
        &mut self,
        stream: Resource<DynInputStream>,
        len: u64,
    ) -> StreamResult<Vec<u8>> {
        self.wait_stream(async |table| {
            waiting_streams::HostInputStream::blocking_read(table, stream, len).await
        })
    }

    fn skip(&mut self, stream: Resource<DynInputStream>, len: u64) -> StreamResult<u64> {
        waiting_streams::HostInputStream::skip(self.table, stream, len)
    }

    fn blocking_skip(&mut self, stream: Resource<DynInputStream>, len: u64) -> StreamResult<u64> {
        self.wait_stream(async |table| {
            waiting_streams::HostInputStream::blocking_skip(table, stream, len).await
        })
    }

    fn subscribe(
        &mut self,
        stream: Resource<DynInputStream>,
    ) -> wasmtime::Result<Resource<DynPollable>> {
        waiting_streams::HostInputStream::subscribe(self.table, stream)
    }
}
