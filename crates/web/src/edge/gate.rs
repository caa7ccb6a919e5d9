//! What stands between a socket and hyper, and lets only whole, checked requests through.
//!
//! hyper reads straight from the socket into its own memory, as it would without a gate; the gate
//! looks at what has come, and takes back what may not pass. Only a head that has not come whole is
//! copied, and waits here for its rest. So hyper never sees a head that would make it answer by itself
//! with an empty page, and never one that it would understand in another way.
//!
//! Once something was refused, nothing more is let through. hyper answers what came before, and then
//! whoever runs the connection takes it over and tells the client why.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::chunks::{Chunks, Walked};
use super::head::{self, BodyLength, Found, Head};
use super::refusal::Refused;
use super::watched::{Side, Switch, Watched, Where};

/// Where in the stream of requests a connection is.
#[derive(Debug)]
enum Place {
    /// Before or in a head.
    Head,
    /// In a body with so many bytes left.
    Body { left: u64 },
    /// In a body of chunks.
    Chunks(Chunks),
    /// Behind a request that may switch to another protocol.
    MaySwitch,
    /// It speaks another protocol.
    Switched,
    /// Nothing more may pass.
    End(Where),
}

/// A socket that gives only what may pass.
pub(super) struct Gate<S> {
    socket: S,
    watched: Arc<Watched>,
    place: Place,
    /// The connection may speak another protocol after the request that is under way.
    may_switch: bool,
    /// What has come and did not pass yet.
    held: Vec<u8>,
    /// So much of it may pass.
    held_free: usize,
    /// It waits for the next request, and the deadline for that is set.
    waits: bool,
}

impl<S> Gate<S> {
    pub fn new(socket: S, watched: Arc<Watched>) -> Self {
        let edge = &watched.edge;
        watched.await_input_until(edge.in_ms(edge.limits.header_timeout_ms));
        Self {
            socket,
            watched,
            place: Place::Head,
            may_switch: false,
            held: Vec::new(),
            held_free: 0,
            waits: true,
        }
    }

    /// The socket, for whoever takes the connection over.
    pub fn socket(&mut self) -> &mut S {
        &mut self.socket
    }

    /// Whether the client may still be sending something that nobody will read.
    pub fn leaves_something(&self) -> bool {
        !matches!(self.place, Place::Head) || !self.held.is_empty()
    }

    /// Looks at what has come, and says how much of it may pass.
    fn look(&mut self, bytes: &[u8]) -> usize {
        let mut at = 0;
        while at < bytes.len() {
            let rest = &bytes[at..];
            match &mut self.place {
                Place::Head => match head::find(rest, &self.watched.edge.limits) {
                    Found::Head(head) => {
                        at += head.bytes;
                        self.begin_request(head);
                    }
                    Found::Part => {
                        self.part_came();
                        break;
                    }
                    Found::Refused(refused) => {
                        self.refuse(refused, Where::Head);
                        break;
                    }
                },
                Place::Body { left } => {
                    let taken = (*left).min(rest.len() as u64);
                    *left -= taken;
                    at += taken as usize;
                    if *left == 0 {
                        self.end_request();
                    }
                }
                Place::Chunks(chunks) => match chunks.walk(rest) {
                    Walked::All => at = bytes.len(),
                    Walked::End(length) => {
                        at += length;
                        self.end_request();
                    }
                    Walked::Refused(length, refused) => {
                        at += length;
                        self.refuse(refused, Where::Body);
                        break;
                    }
                },
                Place::MaySwitch | Place::Switched | Place::End(_) => break,
            }
        }
        at
    }

    fn begin_request(&mut self, head: Head) {
        let watched = &self.watched;
        watched.passed.add(1);
        watched.await_no_input();
        watched.set_part(false);
        self.waits = false;
        self.may_switch = head.may_switch;
        if head.may_switch {
            watched.set_switch(Switch::Unknown);
        }
        let limits = &watched.edge.limits;
        match head.body {
            BodyLength::Bytes(0) => self.end_request(),
            BodyLength::Bytes(left) => self.place = Place::Body { left },
            BodyLength::Chunks => {
                let chunks = Chunks::new(limits.body_bytes_max, limits.header_bytes_max);
                self.place = Place::Chunks(chunks);
            }
        }
    }

    fn end_request(&mut self) {
        let requests_max = self.watched.edge.limits.requests_per_connection_max;
        self.place = match self.watched.passed.get() >= requests_max {
            _ if self.may_switch => Place::MaySwitch,
            true => Place::End(Where::Head),
            false => Place::Head,
        };
    }

    fn part_came(&mut self) {
        let watched = &self.watched;
        let is_new = !watched.has_part();
        watched.set_part(true);
        // The first head must have come some time after the connection did.
        if is_new && self.waits && watched.passed.get() > 0 {
            let edge = &watched.edge;
            watched.await_input_until(edge.in_ms(edge.limits.header_timeout_ms));
        }
    }

    fn refuse(&mut self, refused: Refused, place: Where) {
        self.watched.refuse(refused, place);
        self.place = Place::End(place);
    }

    /// Waits for the next request, if all are answered.
    fn wait(&mut self) {
        let watched = &self.watched;
        if self.waits || !watched.is_idle() || matches!(self.place, Place::Switched) {
            return;
        }
        self.waits = true;
        let limits = &watched.edge.limits;
        let time_ms = match watched.has_part() {
            true => limits.header_timeout_ms,
            false => limits.keep_alive_timeout_ms,
        };
        watched.await_input_until(watched.edge.in_ms(time_ms));
    }

    /// Sees whether there is anything to read in this place, and what came of a switch.
    fn enter(&mut self) -> Entered {
        match &self.place {
            Place::Head => {}
            Place::Body { .. } | Place::Chunks(_) => {
                if self.watched.refused().is_some() {
                    self.place = Place::End(Where::Body);
                    return Entered::Broken;
                }
            }
            Place::MaySwitch => match self.watched.switch() {
                Switch::Unknown => return Entered::Nothing,
                Switch::Stayed => {
                    self.may_switch = false;
                    self.end_request();
                    self.look_at_held();
                    return Entered::Changed;
                }
                Switch::Switched => {
                    self.place = Place::Switched;
                    self.watched.await_no_input();
                    self.held_free = self.held.len();
                    return Entered::Changed;
                }
            },
            Place::Switched => {
                if self.watched.edge.is_cutting() {
                    return Entered::Broken;
                }
            }
            Place::End(Where::Head) => return Entered::Nothing,
            Place::End(Where::Body) => return Entered::Broken,
        }
        Entered::Open
    }

    fn look_at_held(&mut self) {
        let held = std::mem::take(&mut self.held);
        self.held_free = self.look(&held);
        self.held = held;
        if matches!(self.place, Place::End(_)) {
            self.held.truncate(self.held_free);
        }
    }

    /// Gives what was held back and may pass now.
    fn give_held(&mut self, buffer: &mut ReadBuf<'_>) {
        let given = self.held_free.min(buffer.remaining());
        buffer.put_slice(&self.held[..given]);
        self.held.drain(..given);
        self.held_free -= given;
        if self.held.is_empty() {
            // Connections wait most of the time, and should take no memory while they do.
            self.held = Vec::new();
        }
    }

    /// Sorts what was read behind the first bytes of this buffer. Only what may pass stays there.
    fn sort(&mut self, buffer: &mut ReadBuf<'_>, before: usize) {
        let bytes = &buffer.filled()[before..];
        self.watched.bytes_read.add(bytes.len() as u64);
        if self.held.is_empty() {
            let free = self.look(bytes);
            if !matches!(self.place, Place::End(_)) {
                self.held.extend_from_slice(&bytes[free..]);
            }
            buffer.set_filled(before + free);
            return;
        }
        let may_be_whole = memchr::memchr(b'\n', bytes).is_some();
        self.held.extend_from_slice(bytes);
        buffer.set_filled(before);
        if may_be_whole {
            self.look_at_held();
        } else if let Found::Refused(refused) = head::part(&self.held, &self.watched.edge.limits) {
            self.refuse(refused, Where::Head);
        }
    }

    /// A client that takes nothing from a connection that has switched, or a server that ends.
    fn is_cut_off(&self) -> bool {
        let edge = &self.watched.edge;
        matches!(self.place, Place::Switched)
            && (edge.is_cutting() || self.watched.write_is_overdue(edge.now_ms()))
    }

    fn written(
        &mut self,
        context: &Context<'_>,
        written: Poll<io::Result<usize>>,
        wanted: usize,
    ) -> Poll<io::Result<usize>> {
        let is_switched = matches!(self.place, Place::Switched);
        self.watched.set_flushed(false);
        match &written {
            Poll::Ready(Ok(bytes)) => {
                self.watched.wrote(*bytes);
                if is_switched && *bytes == wanted {
                    self.watched.wrote_all();
                }
            }
            Poll::Ready(Err(_)) => {}
            Poll::Pending => {
                self.watched.write_is_stuck();
                if is_switched {
                    self.watched.wake_me(Side::Write, context.waker());
                }
            }
        }
        written
    }
}

/// What there is to do before reading.
enum Entered {
    /// Read.
    Open,
    /// Look again: something was held back.
    Changed,
    /// There is nothing to read for now.
    Nothing,
    /// There will be nothing more.
    Broken,
}

impl<S: AsyncRead + Unpin> AsyncRead for Gate<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let gate = self.get_mut();
        loop {
            if gate.held_free > 0 {
                gate.give_held(buffer);
                return Poll::Ready(Ok(()));
            }
            match gate.enter() {
                Entered::Open => {}
                Entered::Changed => continue,
                Entered::Nothing => return Poll::Pending,
                Entered::Broken => return Poll::Ready(Err(io::ErrorKind::InvalidData.into())),
            }
            let before = buffer.filled().len();
            if Pin::new(&mut gate.socket)
                .poll_read(context, buffer)?
                .is_pending()
            {
                if matches!(gate.place, Place::Switched) {
                    gate.watched.wake_me(Side::Read, context.waker());
                }
                return Poll::Pending;
            }
            if buffer.filled().len() == before {
                return Poll::Ready(Ok(()));
            }
            if matches!(gate.place, Place::Switched) {
                let bytes = buffer.filled().len() - before;
                gate.watched.bytes_read.add(bytes as u64);
                return Poll::Ready(Ok(()));
            }
            gate.sort(buffer, before);
            if buffer.filled().len() > before {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Gate<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let gate = self.get_mut();
        if gate.is_cut_off() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        let written = Pin::new(&mut gate.socket).poll_write(context, bytes);
        gate.written(context, written, bytes.len())
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let gate = self.get_mut();
        if gate.is_cut_off() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        let written = Pin::new(&mut gate.socket).poll_write_vectored(context, slices);
        let wanted = slices.iter().map(|slice| slice.len()).sum();
        gate.written(context, written, wanted)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let gate = self.get_mut();
        ready!(Pin::new(&mut gate.socket).poll_flush(context))?;
        gate.watched.set_flushed(true);
        gate.watched.wrote_all();
        gate.wait();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_shutdown(context)
    }
}

impl<S> Drop for Gate<S> {
    fn drop(&mut self) {
        self.watched.edge.dismiss(&self.watched);
    }
}
