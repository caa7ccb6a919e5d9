//! What can be wrong with the bytes of a frame.

use thiserror::Error;

/// Why bytes are not a STOMP frame. The stream cannot be read any further: tell the peer in an
/// ERROR frame and close the connection. Offsets count from the first byte of the frame.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// The first line is no command.
    #[error("byte 0: `{shown}` is not a STOMP command; commands are upper case, such as CONNECT")]
    UnknownCommand {
        /// The start of the line, made printable.
        shown: String,
    },
    /// The peer speaks HTTP.
    #[error(
        "byte 0: this is an HTTP request, but this port speaks STOMP; use a STOMP client or the HTTP port"
    )]
    HttpRequest,
    /// A header line has no colon between name and value.
    #[error(
        "byte {offset}: header line `{shown}` has no colon; write `name:value`, and a blank line before the body"
    )]
    HeaderWithoutColon {
        /// Where the line starts.
        offset: usize,
        /// The start of the line, made printable.
        shown: String,
    },
    /// A backslash starts no escape that this version of the protocol defines.
    #[error(
        "byte {offset}: undefined escape in a header; defined are \\n, \\c, \\\\ and, since 1.2, \\r"
    )]
    BadEscape {
        /// Where the backslash stands.
        offset: usize,
    },
    /// A header line is longer than allowed.
    #[error(
        "byte {offset}: header line is longer than {header_line_bytes_max} bytes; shorten it or raise the limit"
    )]
    HeaderLineTooLong {
        /// Where the line starts.
        offset: usize,
        /// The limit.
        header_line_bytes_max: usize,
    },
    /// There are more headers than allowed.
    #[error("byte {offset}: more than {headers_max} headers; send fewer or raise the limit")]
    TooManyHeaders {
        /// Where the first header beyond the limit starts.
        offset: usize,
        /// The limit.
        headers_max: usize,
    },
    /// All headers together are longer than allowed.
    #[error(
        "byte {offset}: headers are longer than {headers_bytes_max} bytes in all; send less or raise the limit"
    )]
    HeadersTooLarge {
        /// Where the line that crosses the limit starts.
        offset: usize,
        /// The limit.
        headers_bytes_max: usize,
    },
    /// The content-length is no number.
    #[error(
        "byte {offset}: content-length `{shown}` is not a count of bytes; write decimal digits only"
    )]
    BadContentLength {
        /// Where the header line starts.
        offset: usize,
        /// The start of the value, made printable.
        shown: String,
    },
    /// The body is longer than allowed.
    #[error(
        "byte {offset}: body is longer than {body_bytes_max} bytes; send less or raise the limit"
    )]
    BodyTooLarge {
        /// Where the body starts.
        offset: usize,
        /// The limit.
        body_bytes_max: usize,
    },
    /// The byte after a body with a content-length is not NUL.
    #[error(
        "byte {offset}: NUL expected after the body; content-length must count the bytes of the body"
    )]
    MissingNul {
        /// Where the NUL should stand.
        offset: usize,
    },
    /// A header is not UTF-8.
    #[error("byte {offset}: header is not UTF-8; encode headers as UTF-8")]
    NotUtf8 {
        /// Where the text stops being UTF-8.
        offset: usize,
    },
}
