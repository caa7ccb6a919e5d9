//! Requests to the HTTP interface of Hivewire.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::time::Duration;

use super::{PeerError, Result};

const TIMEOUT: Duration = Duration::from_secs(60);

/// One request.
#[derive(Debug, Clone)]
pub(super) struct Request<'a> {
    method: &'static str,
    path: &'a str,
    token: Option<&'a str>,
    body: String,
}

impl<'a> Request<'a> {
    pub(super) fn get(path: &'a str) -> Self {
        Self {
            method: "GET",
            path,
            token: None,
            body: String::new(),
        }
    }

    pub(super) fn post(path: &'a str, body: String) -> Self {
        Self {
            method: "POST",
            body,
            ..Self::get(path)
        }
    }

    /// Shows the secret.
    pub(super) fn with_token(mut self, token: &'a str) -> Self {
        self.token = Some(token);
        self
    }

    fn text(&self, host: SocketAddr) -> String {
        let Self { method, path, .. } = self;
        let authorization = self
            .token
            .map(|token| format!("Authorization: Bearer {token}\r\n"))
            .unwrap_or_default();
        format!(
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\n{authorization}Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{}",
            self.body.len(),
            self.body
        )
    }
}

/// Makes one request and gives back the body of a successful answer.
pub(super) fn exchange(address: SocketAddr, request: &Request<'_>) -> Result<String> {
    let Request { method, path, .. } = request;
    let answer = read_answer(address, request)
        .map_err(|error| PeerError::system(format!("ask hivewire for {path}"), error))?;
    let unexpected = |answer: &str| PeerError::UnexpectedAnswer {
        peer: "hivewire".to_owned(),
        answer: format!("{method} {path}: {answer}"),
    };
    let (head, body) = answer
        .split_once("\r\n\r\n")
        .ok_or_else(|| unexpected("not an HTTP answer"))?;
    let status = head.lines().next().unwrap_or_default();
    match status.split(' ').nth(1) {
        Some("200" | "201") => Ok(body.to_owned()),
        _ => Err(unexpected(&format!("{status}: {body}"))),
    }
}

fn read_answer(address: SocketAddr, request: &Request<'_>) -> std::io::Result<String> {
    let mut stream = super::connect(address, TIMEOUT)?;
    stream.write_all(request.text(address).as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_says_how_long_it_is_and_who_asks() {
        let host = "127.0.0.1:80".parse().expect("an address");
        let text = Request::post("/p", "{}".to_owned())
            .with_token("t")
            .text(host);
        assert!(text.starts_with("POST /p HTTP/1.1\r\nHost: 127.0.0.1:80\r\n"));
        assert!(text.contains("Authorization: Bearer t\r\n"));
        assert!(text.contains("Content-Length: 2\r\n"));
        assert!(text.ends_with("\r\n\r\n{}"));
        assert!(!Request::get("/p").text(host).contains("Authorization"));
    }
}
