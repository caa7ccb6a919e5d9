//! WASI 0.2 for workers in languages whose runtime needs it, with nothing behind it.
//!
//! No folders, no sockets, no variables, no arguments, empty standard input. What is written to
//! standard output and standard error goes to the worker's log. Time and random numbers are real.
//!
//! Everything that could wait does so under the deadline of the call, and without a tokio runtime:
//! wasmtime's own synchronous functions start one, which fails within another.

mod clock;
mod io;
mod output;

use std::sync::Arc;

use kernel::worker::LogLevel;
use wasmtime::component::{HasData, Linker, Resource, ResourceTable};
use wasmtime_wasi::cli::{WasiCli, WasiCliView};
use wasmtime_wasi::clocks::{WasiClocks, WasiClocksView};
use wasmtime_wasi::filesystem::{WasiFilesystem, WasiFilesystemView};
use wasmtime_wasi::p2::bindings::sockets::network::{self, ErrorCode, IpAddressFamily};
use wasmtime_wasi::p2::bindings::sync::sockets::udp_create_socket;
use wasmtime_wasi::p2::bindings::{cli, clocks, filesystem, random, sockets, sync};
use wasmtime_wasi::p2::{IoError, Network, SocketError, SocketResult, UdpSocket};
use wasmtime_wasi::random::WasiRandom;
use wasmtime_wasi::sockets::{WasiSockets, WasiSocketsView};
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};

use crate::data::Data;
use crate::output::Output;

/// Random bytes that one call may ask for.
const RANDOM_BYTES_MAX: u64 = 1 << 20;

/// The context of one instance.
pub(crate) struct Wasi {
    context: WasiCtx,
    table: ResourceTable,
}

impl Wasi {
    fn new(output: &Arc<Output>) -> Self {
        let context = WasiCtx::builder()
            .stdout(output::LogStream::new(output, LogLevel::Info))
            .stderr(output::LogStream::new(output, LogLevel::Warn))
            .allow_tcp(false)
            .allow_udp(false)
            .allow_ip_name_lookup(false)
            .max_random_size(RANDOM_BYTES_MAX)
            .build();
        Self {
            context,
            table: ResourceTable::new(),
        }
    }
}

impl WasiView for Data {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        let output = &self.output;
        let wasi = self.wasi.get_or_insert_with(|| Box::new(Wasi::new(output)));
        WasiCtxView {
            ctx: &mut wasi.context,
            table: &mut wasi.table,
        }
    }
}

/// Links everything that a command of WASI 0.2 may import.
pub(crate) fn add_to_linker(l: &mut Linker<Data>) -> wasmtime::Result<()> {
    io::add_to_linker(l)?;
    clock::add_to_linker(l)?;
    clocks::wall_clock::add_to_linker::<Data, WasiClocks>(l, Data::clocks)?;
    random::random::add_to_linker::<Data, WasiRandom>(l, |t| t.ctx().ctx.random())?;
    random::insecure::add_to_linker::<Data, WasiRandom>(l, |t| t.ctx().ctx.random())?;
    random::insecure_seed::add_to_linker::<Data, WasiRandom>(l, |t| t.ctx().ctx.random())?;
    cli::exit::add_to_linker::<Data, WasiCli>(l, Data::cli)?;
    cli::environment::add_to_linker::<Data, WasiCli>(l, Data::cli)?;
    cli::stdin::add_to_linker::<Data, WasiCli>(l, Data::cli)?;
    cli::stdout::add_to_linker::<Data, WasiCli>(l, Data::cli)?;
    cli::stderr::add_to_linker::<Data, WasiCli>(l, Data::cli)?;
    cli::terminal_input::add_to_linker::<Data, WasiCli>(l, Data::cli)?;
    cli::terminal_output::add_to_linker::<Data, WasiCli>(l, Data::cli)?;
    cli::terminal_stdin::add_to_linker::<Data, WasiCli>(l, Data::cli)?;
    cli::terminal_stdout::add_to_linker::<Data, WasiCli>(l, Data::cli)?;
    cli::terminal_stderr::add_to_linker::<Data, WasiCli>(l, Data::cli)?;
    filesystem::preopens::add_to_linker::<Data, WasiFilesystem>(l, Data::filesystem)?;
    sync::filesystem::types::add_to_linker::<Data, WasiFilesystem>(l, Data::filesystem)?;
    sockets::tcp_create_socket::add_to_linker::<Data, WasiSockets>(l, Data::sockets)?;
    sockets::instance_network::add_to_linker::<Data, WasiSockets>(l, Data::sockets)?;
    network::add_to_linker::<Data, WasiSockets>(l, &Default::default(), Data::sockets)?;
    sockets::ip_name_lookup::add_to_linker::<Data, WasiSockets>(l, Data::sockets)?;
    sync::sockets::tcp::add_to_linker::<Data, WasiSockets>(l, Data::sockets)?;
    sync::sockets::udp::add_to_linker::<Data, WasiSockets>(l, Data::sockets)?;
    udp_create_socket::add_to_linker::<Data, NoUdp>(l, |_| NoUdp)
}

/// Refuses sockets for datagrams, where wasmtime would start a runtime to do so.
struct NoUdp;

impl HasData for NoUdp {
    type Data<'a> = NoUdp;
}

impl udp_create_socket::Host for NoUdp {
    fn create_udp_socket(&mut self, _: IpAddressFamily) -> SocketResult<Resource<UdpSocket>> {
        Err(ErrorCode::AccessDenied.into())
    }
}

/// Only the first function is ever called: it turns the refusal into what the guest sees.
impl network::Host for NoUdp {
    fn convert_error_code(&mut self, error: SocketError) -> wasmtime::Result<ErrorCode> {
        error.downcast()
    }

    fn network_error_code(&mut self, _: Resource<IoError>) -> wasmtime::Result<Option<ErrorCode>> {
        Ok(None)
    }
}

impl network::HostNetwork for NoUdp {
    fn drop(&mut self, _: Resource<Network>) -> wasmtime::Result<()> {
        Ok(())
    }
}
