//! Recognises an HTTP request sent to a port that speaks something else.
//!
//! A browser, a health check or a proxy that is set up wrongly should be told so, not be answered
//! "unknown command".

const METHODS: [&[u8]; 9] = [
    b"GET ",
    b"POST ",
    b"PUT ",
    b"HEAD ",
    b"OPTIONS ",
    b"DELETE ",
    b"PATCH ",
    b"TRACE ",
    b"PRI * ",
];

/// True once `input` surely starts with an HTTP request; its line need not be complete.
pub(crate) fn is_request(input: &[u8]) -> bool {
    METHODS.iter().any(|method| input.starts_with(method)) || is_connect(input)
}

/// STOMP has a CONNECT of its own, which nothing but a line end may follow.
fn is_connect(input: &[u8]) -> bool {
    let target = input.strip_prefix(b"CONNECT ").and_then(<[u8]>::first);
    target.is_some_and(|byte| !byte.is_ascii_whitespace())
}

#[cfg(test)]
mod tests {
    use super::is_request;

    #[test]
    fn requests_are_seen_before_the_line_ends() {
        for request in [
            "GET ",
            "POST /",
            "DELETE /a HTTP/1.1\r\n",
            "CONNECT host:443",
            "PRI * H",
        ] {
            assert!(is_request(request.as_bytes()), "{request}");
        }
    }

    #[test]
    fn other_protocols_are_left_alone() {
        for other in [
            "",
            "GE",
            "GET",
            "get ",
            "CONNECT",
            "CONNECT\n",
            "CONNECT\r\n",
            "CONNECT \n",
            "PUB a\n",
        ] {
            assert!(!is_request(other.as_bytes()), "{other}");
        }
    }
}
