//! STOMP 1.0, 1.1 and 1.2 on TCP.
//!
//! Destinations are `/queue/<name>`, `/topic/<name>` and `/temp-queue/<name>`, which belongs to
//! its connection and ends with it. A node may also commit state and ask for it, at destinations that
//! begin with `/hivewire/`.

mod commands;
mod connect;
mod destination;
mod encode;
mod node;
mod receipts;
mod requests;
mod session;
mod subscriptions;
mod transactions;

use std::net::SocketAddr;

use wire::stomp::Limits;

use crate::settings::{Address, StompSettings};
use crate::{Context, ListenError, Opened, accept, check_bind};

/// Opens the socket.
pub(crate) fn start(context: &Context, opened: &mut Opened) -> Result<(), ListenError> {
    let Address::At(address) = context.settings.stomp.address else {
        return Ok(());
    };
    check_bind(address, context.settings.allow_remote, "STOMP")?;
    let session = |context: &Context, peer: SocketAddr| session::StompSession::new(context, peer);
    accept::listen(context, opened, "stomp", address, session)?;
    Ok(())
}

fn limits(settings: &StompSettings) -> Limits {
    Limits {
        header_line_bytes_max: settings.headers_bytes_max,
        headers_max: settings.headers_max,
        headers_bytes_max: settings.headers_bytes_max,
        body_bytes_max: settings.body_bytes_max,
    }
}
