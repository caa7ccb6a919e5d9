//! What a subscriber receives.

use memchr::memmem;

use super::{DELIVERY_END, DecodeError};

/// One delivered message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeliveredBody<'a> {
    /// The body as it was published.
    pub body: &'a [u8],
    /// How many bytes to drop from the input.
    pub consumed: usize,
}

/// Splits what the server sends to a subscriber into bodies, in place.
///
/// It knows nothing but deliveries: a client that also waits for `PUBACK` or `PINGRESP` does that on
/// a connection of its own, for a body may look just like them.
///
/// ```
/// use wire::gamq::DeliveryDecoder;
///
/// let mut decoder = DeliveryDecoder::new(1024);
/// let delivered = decoder.decode(b"0\n\r\n.\r\n1\n").unwrap().unwrap();
/// assert_eq!((delivered.body, delivered.consumed), (&b"0\n"[..], 7));
/// ```
#[derive(Clone, Debug)]
pub struct DeliveryDecoder {
    body_bytes_max: usize,
    /// The body does not end before this.
    scanned: usize,
    end: memmem::Finder<'static>,
}

impl DeliveryDecoder {
    /// A decoder for a new connection that takes bodies of up to `body_bytes_max` bytes.
    pub fn new(body_bytes_max: usize) -> Self {
        Self {
            body_bytes_max,
            scanned: 0,
            end: memmem::Finder::new(DELIVERY_END),
        }
    }

    /// Reads one body from the start of `input`, which must start with the bytes that earlier calls
    /// found incomplete, if any. `None`: not yet a whole body.
    ///
    /// # Errors
    ///
    /// The body is beyond the limit. Close the connection.
    ///
    /// # Panics
    ///
    /// `input` is shorter than what an earlier call found incomplete.
    pub fn decode<'a>(
        &mut self,
        input: &'a [u8],
    ) -> Result<Option<DeliveredBody<'a>>, DecodeError> {
        let found = self.end.find(&input[self.scanned..]);
        let body_end = found.map(|found| self.scanned + found);
        // Without an end in sight, the last bytes may still be the start of one.
        let certain = body_end.unwrap_or((input.len() + 1).saturating_sub(DELIVERY_END.len()));
        if certain > self.body_bytes_max {
            return Err(DecodeError::BodyTooLarge {
                offset: 0,
                body_bytes_max: self.body_bytes_max,
            });
        }
        self.scanned = if found.is_some() { 0 } else { certain };
        Ok(body_end.map(|end| DeliveredBody {
            body: &input[..end],
            consumed: end + DELIVERY_END.len(),
        }))
    }
}
