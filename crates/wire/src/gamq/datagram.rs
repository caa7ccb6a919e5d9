//! Commands that come as datagrams.

use super::decode::Extent;
use super::{Command, DecodeError, Decoder, Limits};

/// Puts one sender's datagrams together to commands; the caller keeps one per address.
///
/// A datagram holds one or more commands, a piece of a body, or the end of a publish. Two rules
/// differ from a stream, as pieces get lost and clients think in datagrams:
///
/// - outside a body the end of a datagram also ends its line;
/// - a datagram that is just a full stop and a line end ends a publish, even if the piece before it
///   did not end in a line feed.
///
/// It holds nothing between commands and, in a publish, no more than the limits allow and one
/// datagram. A publish whose end got lost stays open: forget the address after some quiet time.
///
/// ```
/// use wire::gamq::{Command, DatagramDecoder, Limits};
///
/// let mut decoder = DatagramDecoder::new(Limits::default());
/// let mut bodies = Vec::new();
/// for datagram in ["PUB orders\r\n", "two ", "apples\n", ".\r\n"] {
///     let fed = decoder.feed(datagram.as_bytes(), |command| {
///         if let Command::Publish { body, .. } = command {
///             bodies.push(body.to_vec());
///         }
///     });
///     fed.unwrap();
/// }
/// assert_eq!(bodies, [b"two apples\n"]);
/// ```
#[derive(Clone, Debug)]
pub struct DatagramDecoder {
    limits: Limits,
    decoder: Decoder,
    /// A publish whose end has not arrived, from its command line on.
    pending: Vec<u8>,
}

impl DatagramDecoder {
    /// A decoder for a sender that was not heard of before.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            decoder: Decoder::new(limits),
            pending: Vec::new(),
        }
    }

    /// Reads a datagram and hands every command that it completes to `handle`, in order.
    ///
    /// # Errors
    ///
    /// The bytes are HTTP, or beyond the limits. What was pending and the rest of the datagram are
    /// dropped; the next datagram is read as from a new sender.
    pub fn feed(
        &mut self,
        datagram: &[u8],
        handle: impl FnMut(Command<'_>),
    ) -> Result<(), DecodeError> {
        let fed = self.feed_pending(datagram, handle);
        if fed.is_err() {
            *self = Self::new(self.limits);
        }
        fed
    }

    /// True between commands: the decoder then holds nothing that would be lost with it.
    pub fn is_idle(&self) -> bool {
        self.pending.is_empty()
    }

    /// How many bytes of a publish are held.
    pub fn pending_bytes(&self) -> usize {
        self.pending.len()
    }

    fn feed_pending(
        &mut self,
        datagram: &[u8],
        mut handle: impl FnMut(Command<'_>),
    ) -> Result<(), DecodeError> {
        if self.is_idle() {
            // Most publishes come whole: they are read in place.
            let consumed = drain(&mut self.decoder, datagram, &mut handle)?;
            self.pending.extend_from_slice(&datagram[consumed..]);
        } else if let Some(extent) = self.end_of_open_line(datagram)? {
            handle(self.decoder.parse(&self.pending, extent));
            self.pending.clear();
        } else {
            self.pending.extend_from_slice(datagram);
            self.drain_pending(&mut handle)?;
        }
        if !self.is_idle() && !self.decoder.in_body() {
            self.pending.push(b'\n');
            self.drain_pending(&mut handle)?;
        }
        Ok(())
    }

    fn drain_pending(&mut self, handle: &mut impl FnMut(Command<'_>)) -> Result<(), DecodeError> {
        let consumed = drain(&mut self.decoder, &self.pending, handle)?;
        self.pending.drain(..consumed);
        Ok(())
    }

    /// The publish that this datagram ends, if it does so only because it is a datagram.
    fn end_of_open_line(&mut self, datagram: &[u8]) -> Result<Option<Extent>, DecodeError> {
        let ends = matches!(datagram, b".\r\n" | b".\n");
        if !ends || self.pending.ends_with(b"\n") {
            return Ok(None);
        }
        self.decoder.end_body_here(&self.pending)
    }
}

/// Handles all complete commands and says how many bytes they took.
fn drain(
    decoder: &mut Decoder,
    input: &[u8],
    handle: &mut impl FnMut(Command<'_>),
) -> Result<usize, DecodeError> {
    let mut consumed = 0;
    while let Some(extent) = decoder.find_extent(&input[consumed..])? {
        handle(decoder.parse(&input[consumed..], extent));
        consumed += extent.consumed;
    }
    Ok(consumed)
}
