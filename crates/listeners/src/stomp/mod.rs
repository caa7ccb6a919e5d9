//! STOMP 1.0, 1.1 and 1.2 on TCP, encrypted or not.
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
use crate::{Context, ListenError, Opened, accept, check_bind, encryption};

/// Opens the sockets: one that is encrypted, and one that is not.
pub(crate) fn start(context: &Context, opened: &mut Opened) -> Result<(), ListenError> {
    let session = |context: &Context, peer: SocketAddr| session::StompSession::new(context, peer);
    let settings = &context.settings.stomp;
    if let Address::At(address) = settings.address {
        check_bind(address, context.settings.allow_remote, "STOMP")?;
        accept::listen(context, opened, "stomp", address, None, session)?;
    }
    if let Address::At(address) = settings.tls_address {
        let (Some(certificate), Some(key)) = (&settings.tls_certificate, &settings.tls_key) else {
            return Err(ListenError::NoCertificate { address });
        };
        if !address.ip().is_loopback() && context.settings.users.is_empty() {
            return Err(ListenError::Anyone { address });
        }
        let tls = encryption::config(certificate, key)?;
        accept::listen(context, opened, "stomp", address, Some(tls), session)?;
    }
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
