//! gamq: a text protocol with a line per command, on TCP and on UDP.
//!
//! The name of a topic is written `topic:<name>`; every other name is a queue. `metrics` is a topic
//! without the prefix, as clients expect it.

mod datagrams;
mod session;

use std::net::SocketAddr;

use kernel::{Destination, Name, NameError};
use wire::gamq::Limits;

use crate::settings::{Address, GamqSettings};
use crate::{Context, ListenError, Opened, accept, check_bind};

/// Opens the sockets: UDP on the same port as TCP.
pub(crate) fn start(context: &Context, opened: &mut Opened) -> Result<(), ListenError> {
    let Address::At(address) = context.settings.gamq.address else {
        return Ok(());
    };
    check_bind(address, context.settings.allow_remote, "gamq")?;
    if !context.settings.users.is_empty() && !context.settings.gamq.allow_anonymous {
        return Err(ListenError::AnonymousGamq);
    }
    let session = |context: &Context, _: SocketAddr| session::GamqSession::new(context);
    let address = accept::listen(context, opened, "gamq", address, None, session)?;
    datagrams::listen(context, opened, address)
}

fn limits(settings: &GamqSettings) -> Limits {
    Limits {
        line_bytes_max: settings.line_bytes_max,
        name_bytes_max: kernel::limits::NAME_BYTES_MAX,
        body_bytes_max: settings.body_bytes_max,
    }
}

fn destination(name: &str) -> Result<Destination, NameError> {
    match name.strip_prefix("topic:") {
        Some(topic) => Name::new(topic).map(Destination::Topic),
        None if name == "metrics" => Name::new(name).map(Destination::Topic),
        None => Name::new(name).map(Destination::Queue),
    }
}
