//! The commands' side of the REST interface.

mod error;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use ureq::http::{Response, StatusCode};
use ureq::typestate::WithBody;
use ureq::{Agent, Body, RequestBuilder};

pub(crate) use self::error::ClientError;
use crate::data_folder;
use crate::secret::Secret;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Longer than the node itself waits for its disk.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// A stream has a sign of life every ten seconds.
const READ_TIMEOUT: Duration = Duration::from_secs(35);
const ANSWER_BYTES_MAX: u64 = 256 << 20;
/// A part of something long may have to be looked up first.
const COPY_READ_TIMEOUT: Duration = Duration::from_secs(120);
const COPY_BYTES: usize = 64 << 10;

/// What stays as it is in a part of a path.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');

/// Encodes a name as one part of a path.
pub(crate) fn encode(name: &str) -> String {
    utf8_percent_encode(name, PLAIN).to_string()
}

/// A node to talk to.
pub(crate) struct Client {
    agent: Agent,
    server: String,
    token: Option<Secret>,
    token_file: PathBuf,
}

impl Client {
    /// A client of the node at `server`. Without a token, that of the data folder is used, if the
    /// node is on this machine: it is nobody else's business.
    pub fn new(server: &str, token: Option<&str>, data: &Path) -> Result<Self, ClientError> {
        let server = server.trim_end_matches('/');
        let bad_server = || ClientError::BadServer {
            server: server.to_owned(),
        };
        let rest = server.strip_prefix("http://").ok_or_else(bad_server)?;
        if rest.is_empty() || rest.contains(['/', '@', '?', '#']) {
            return Err(bad_server());
        }
        let token_file = data_folder::token_path(data);
        let token = match token {
            Some(token) => Some(Secret::new(token)),
            None if is_local(rest) && token_file.exists() => {
                Some(data_folder::read_token(&token_file).map_err(ClientError::Token)?)
            }
            None => None,
        };
        Ok(Self {
            agent: agent(),
            server: server.to_owned(),
            token,
            token_file,
        })
    }

    /// Asks for something.
    pub fn get(&self, path: &str) -> Result<Value, ClientError> {
        let request = self.agent.get(format!("{}{path}", self.server));
        let answer = request.header("Authorization", self.authorization()).call();
        self.json(self.checked(answer)?)
    }

    /// Asks for all pages of a list, and gives them as one answer.
    pub fn get_all(&self, path: &str, list: &str) -> Result<Value, ClientError> {
        let mut all = self.get(path)?;
        let mark = if path.contains('?') { '&' } else { '?' };
        while let Some(next) = all["next"].as_str() {
            let mut page = self.get(&format!("{path}{mark}after={}", encode(next)))?;
            all["next"] = page["next"].take();
            if let (Some(items), Some(more)) = (all[list].as_array_mut(), page[list].as_array_mut())
            {
                items.append(more);
            }
        }
        Ok(all)
    }

    /// Sends JSON.
    pub fn post(&self, path: &str, body: &Value) -> Result<Value, ClientError> {
        self.post_within(path, body, ANSWER_TIMEOUT)
    }

    /// Sends JSON and waits for the answer for a time that the caller knows best.
    pub fn post_within(
        &self,
        path: &str,
        body: &Value,
        timeout: Duration,
    ) -> Result<Value, ClientError> {
        let request = self.agent.post(format!("{}{path}", self.server));
        let answer = request
            .header("Authorization", self.authorization())
            .header("Accept", "application/json")
            .header("Content-Type", "application/json")
            .config()
            .timeout_global(Some(timeout))
            .build()
            .send(body.to_string());
        self.json(self.checked(answer)?)
    }

    /// Uploads bytes to a place that is named.
    pub fn put(&self, path: &str, body: &[u8], timeout: Duration) -> Result<Value, ClientError> {
        let request = self.agent.put(format!("{}{path}", self.server));
        self.upload(request, body, timeout)
    }

    /// Puts JSON to a place that is named.
    pub fn put_json(&self, path: &str, body: &str) -> Result<Value, ClientError> {
        let request = self.agent.put(format!("{}{path}", self.server));
        let answer = request
            .header("Authorization", self.authorization())
            .header("Content-Type", "application/json")
            .send(body);
        self.json(self.checked(answer)?)
    }

    /// Puts JSON to a place that is named, if what is there has this ETag, and waits for as long as the caller says.
    pub fn put_expected(
        &self,
        path: &str,
        body: &Value,
        etag: Option<&str>,
        timeout: Duration,
    ) -> Result<Value, ClientError> {
        let request = self.agent.put(format!("{}{path}", self.server));
        let request = request
            .header("Authorization", self.authorization())
            .header("Content-Type", "application/json");
        let request = match etag {
            Some(etag) => request.header("If-Match", etag),
            None => request,
        };
        let answer = request
            .config()
            .timeout_global(Some(timeout))
            .build()
            .send(body.to_string());
        self.json(self.checked(answer)?)
    }

    /// Uploads bytes that say themselves where they belong.
    pub fn post_bytes(
        &self,
        path: &str,
        body: &[u8],
        timeout: Duration,
    ) -> Result<Value, ClientError> {
        let request = self.agent.post(format!("{}{path}", self.server));
        self.upload(request, body, timeout)
    }

    fn upload(
        &self,
        request: RequestBuilder<WithBody>,
        body: &[u8],
        timeout: Duration,
    ) -> Result<Value, ClientError> {
        let answer = request
            .header("Authorization", self.authorization())
            .header("Content-Type", "application/wasm")
            .config()
            .timeout_global(Some(timeout))
            .build()
            .send(body);
        self.json(self.checked(answer)?)
    }

    /// Asks for bytes.
    pub fn get_bytes(&self, path: &str, timeout: Duration) -> Result<Vec<u8>, ClientError> {
        let request = self.agent.get(format!("{}{path}", self.server));
        let answer = request
            .header("Authorization", self.authorization())
            .config()
            .timeout_global(Some(timeout))
            .build()
            .call();
        self.bytes(self.checked(answer)?)
    }

    /// Whether the node is on this machine, so that both see the same files.
    pub fn is_local(&self) -> bool {
        self.server.strip_prefix("http://").is_some_and(is_local)
    }

    /// Ends something.
    pub fn delete(&self, path: &str) -> Result<Value, ClientError> {
        let request = self.agent.delete(format!("{}{path}", self.server));
        let answer = request.header("Authorization", self.authorization()).call();
        self.json(self.checked(answer)?)
    }

    /// Asks for lines that come one by one, for as long as the node likes.
    pub fn lines(&self, path: &str) -> Result<Lines, ClientError> {
        let request = self.agent.get(format!("{}{path}", self.server));
        let answer = request
            .header("Authorization", self.authorization())
            .config()
            .timeout_global(None)
            .timeout_per_read(Some(READ_TIMEOUT))
            .build()
            .call();
        let body = self.checked(answer)?.into_body();
        Ok(Lines {
            reader: BufReader::new(Box::new(body.into_reader())),
            server: self.server.clone(),
        })
    }

    /// Asks for something that may be long, and writes it there as it comes.
    pub fn copy(&self, path: &str, to: &mut dyn Write) -> anyhow::Result<()> {
        let request = self.agent.get(format!("{}{path}", self.server));
        let answer = request
            .header("Authorization", self.authorization())
            .config()
            .timeout_global(None)
            .timeout_per_read(Some(COPY_READ_TIMEOUT))
            .build()
            .call();
        let body = self.checked(answer)?.into_body();
        let mut from = BufReader::with_capacity(COPY_BYTES, body.into_reader());
        loop {
            let read = from.fill_buf();
            let read = read.map_err(|error| ClientError::of(&self.server, error.into()))?;
            let length = read.len();
            if length == 0 {
                return Ok(to.flush()?);
            }
            to.write_all(read)?;
            from.consume(length);
        }
    }

    fn authorization(&self) -> String {
        let token = self.token.as_ref().map(Secret::reveal);
        format!("Bearer {}", token.unwrap_or_default())
    }

    fn checked(
        &self,
        answer: Result<Response<Body>, ureq::Error>,
    ) -> Result<Response<Body>, ClientError> {
        let mut answer = answer.map_err(|error| ClientError::of(&self.server, error))?;
        if answer.status() == StatusCode::OK {
            return Ok(answer);
        }
        if answer.status() == StatusCode::UNAUTHORIZED {
            return Err(ClientError::Unauthorized {
                server: self.server.clone(),
                token_file: self.token_file.clone(),
                given: self.token.is_some(),
            });
        }
        let status = answer.status().as_u16();
        let body = answer.body_mut().read_to_vec().unwrap_or_default();
        let problem: Value = serde_json::from_slice(&body).unwrap_or_default();
        Err(ClientError::Refused {
            status,
            kind: text_of(&problem, "type"),
            title: text_of(&problem, "title"),
            detail: text_of(&problem, "detail"),
            accepted: problem["accepted"].as_u64().unwrap_or_default(),
        })
    }

    fn bytes(&self, answer: Response<Body>) -> Result<Vec<u8>, ClientError> {
        let mut body = answer.into_body();
        let limited = body.with_config().limit(ANSWER_BYTES_MAX);
        let bytes = limited.read_to_vec();
        bytes.map_err(|error| ClientError::of(&self.server, error))
    }

    fn json(&self, answer: Response<Body>) -> Result<Value, ClientError> {
        let bytes = self.bytes(answer)?;
        serde_json::from_slice(&bytes).map_err(|error| ClientError::Other {
            server: self.server.clone(),
            reason: format!("the answer is no JSON: {error}"),
        })
    }
}

fn agent() -> Agent {
    Agent::config_builder()
        .timeout_connect(Some(CONNECT_TIMEOUT))
        .timeout_global(Some(ANSWER_TIMEOUT))
        .http_status_as_error(false)
        // The token is for the node alone: it follows no redirect and passes no proxy.
        .max_redirects(0)
        .proxy(None)
        .user_agent(concat!("hivewire/", env!("CARGO_PKG_VERSION")))
        .build()
        .into()
}

fn is_local(authority: &str) -> bool {
    let name = match authority.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => authority,
    };
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    name == "localhost" || bare.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

fn text_of(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap_or_default().to_owned()
}

/// Lines of JSON from a node. Blank ones, which only say that it is there, are left out.
pub(crate) struct Lines {
    reader: BufReader<Box<dyn Read>>,
    server: String,
}

impl Lines {
    /// The next line without its end; `None` when the node ended the stream.
    pub fn next_line(&mut self) -> Result<Option<Vec<u8>>, ClientError> {
        loop {
            let mut line = Vec::new();
            let limited = &mut self.reader.by_ref().take(ANSWER_BYTES_MAX);
            let read = limited.read_until(b'\n', &mut line);
            let bytes = read.map_err(|error| ClientError::of(&self.server, error.into()))?;
            if bytes == 0 {
                return Ok(None);
            }
            if line.pop() != Some(b'\n') {
                return Err(ClientError::BrokeOff {
                    server: self.server.clone(),
                });
            }
            if !line.is_empty() {
                return Ok(Some(line));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_one_part_of_a_path() {
        assert_eq!(encode("a/b c?é"), "a%2Fb%20c%3F%C3%A9");
        assert_eq!(encode("orders.new_1-~"), "orders.new_1-~");
    }

    #[test]
    fn the_token_of_the_data_folder_is_for_this_machine_only() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(data_folder::token_path(folder.path()), "0123456789abcdef").unwrap();
        let token_for = |server| {
            let client = Client::new(server, None, folder.path()).unwrap();
            client.token.is_some()
        };
        assert!(token_for("http://127.0.0.1:8000") && token_for("http://[::1]:8000/"));
        assert!(token_for("http://localhost") && !token_for("http://hive.example:8000"));
        assert!(!token_for("http://10.0.0.1:8000") && !token_for("http://localhost.example"));
    }

    #[test]
    fn only_plain_addresses_are_servers() {
        for server in [
            "https://127.0.0.1",
            "127.0.0.1:8000",
            "http://",
            "http://a/b",
            "http://u@a",
        ] {
            assert!(
                Client::new(server, None, Path::new("none")).is_err(),
                "{server}"
            );
        }
    }
}
