//! One request: whether it may come, who gets it, and what becomes of it.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use kernel::limits::BODY_BYTES_MAX;

use super::Services;
use super::exchange::{answer_of, message_of};
use super::table::FlowRoute;
use crate::rest::{AllowedHosts, Problem};

const RETRY_AFTER_SECONDS: &str = "1";
/// All origins may ask.
pub(super) const ANY_ORIGIN: &str = "*";

/// What all requests go through.
pub(super) struct Front {
    pub services: Arc<Services>,
    pub doors: Doors,
}

/// Answers a request.
pub(super) async fn dispatch(State(front): State<Arc<Front>>, request: Request) -> Response {
    let services = &front.services;
    if let Some(problem) = front.doors.refusal(request.headers()) {
        services.refused.inc();
        return problem.into_response();
    }
    let table = services.table();
    let (parts, body) = request.into_parts();
    let path = parts.uri.path();
    let Some((route, open)) = table.find(parts.method.as_str(), path) else {
        let methods = table.methods_at(path);
        return match methods.is_empty() {
            true => {
                services
                    .mounted_answer(Request::from_parts(parts, body))
                    .await
            }
            false => not_with_this_method(&methods),
        };
    };
    let under_way = route.numbers.begin();
    let answered = match read(body, services.body_bytes_max()).await {
        Ok(body) => match message_of(route, &parts, &open, body) {
            Ok(event) => hand_over(services, route, &parts.method, event).await,
            Err(problem) => Err(problem),
        },
        Err(problem) => Err(problem),
    };
    let answer = answered.unwrap_or_else(Problem::into_response);
    under_way.answered(answer.status().is_server_error());
    with_retry(answer)
}

/// Gives the event to the stage, and waits for its reply if it is to answer.
async fn hand_over(
    services: &Services,
    route: &FlowRoute,
    method: &axum::http::Method,
    event: kernel::Message,
) -> Result<Response, Problem> {
    let stage = &route.stage;
    if !services.deployments.exists(stage) {
        return Err(Problem::not_ready(format!(
            "the stage {stage}, which answers this, does not run: start its flow again"
        )));
    }
    let runtime = services.deployments.runtime();
    if !route.reply {
        runtime.send(&route.address, event).await?;
        return Ok(StatusCode::ACCEPTED.into_response());
    }
    let reply = runtime.ask(&route.address, event, route.timeout).await?;
    Ok(answer_of(route, method, reply))
}

async fn read(body: Body, bytes_max: usize) -> Result<Bytes, Problem> {
    match Limited::new(body, bytes_max).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(Problem::too_large(format!(
            "a body has at most {bytes_max} bytes"
        ))),
        Err(error) => Err(Problem::bad_request(format!(
            "the body cannot be read: {error}"
        ))),
    }
}

fn not_with_this_method(methods: &[&str]) -> Response {
    let mut response = Problem::method_not_allowed().into_response();
    let allow = HeaderValue::from_str(&methods.join(", "));
    response
        .headers_mut()
        .extend(allow.ok().map(|allow| (header::ALLOW, allow)));
    response
}

/// Who finds no room is told when to come again.
fn with_retry(mut response: Response) -> Response {
    if response.status() == StatusCode::SERVICE_UNAVAILABLE {
        let seconds = HeaderValue::from_static(RETRY_AFTER_SECONDS);
        response
            .headers_mut()
            .entry(header::RETRY_AFTER)
            .or_insert(seconds);
    }
    response
}

/// Whose web pages may ask.
pub(super) struct Doors {
    pub hosts: AllowedHosts,
    /// Lower-case.
    pub origins: Vec<String>,
}

impl Doors {
    /// Why a request is refused, if it is. Pages of others can reach loopback, so what they send without being asked is refused.
    pub fn refusal(&self, headers: &HeaderMap) -> Option<Problem> {
        let host = match single(headers, header::HOST) {
            Some(host) if self.hosts.allows(host) => host,
            _ => {
                return Some(Problem::forbidden(
                    "the Host header does not name this service: use its address, or add the name to `services.hosts`",
                ));
            }
        };
        let is_any = self.origins.iter().any(|origin| origin == ANY_ORIGIN);
        if is_any {
            return None;
        }
        let from_elsewhere = || {
            Problem::forbidden(
                "the request comes from a web page of another origin: add that to `services.origins`",
            )
        };
        if headers.contains_key(header::ORIGIN) {
            let is_ours = |origin: &str| {
                let is_listed = self
                    .origins
                    .iter()
                    .any(|listed| *listed == origin.to_lowercase());
                is_listed || self.hosts.allows_origin(origin, host)
            };
            let origin = single(headers, header::ORIGIN);
            return (!origin.is_some_and(is_ours)).then(from_elsewhere);
        }
        // A page that only wants a picture sends no Origin.
        let is_cross = single(headers, SEC_FETCH_SITE).is_some_and(|site| site == "cross-site");
        let is_visit = single(headers, SEC_FETCH_MODE).is_some_and(|mode| mode == "navigate");
        (is_cross && !is_visit).then(from_elsewhere)
    }
}

const SEC_FETCH_SITE: header::HeaderName = header::HeaderName::from_static("sec-fetch-site");
const SEC_FETCH_MODE: header::HeaderName = header::HeaderName::from_static("sec-fetch-mode");

fn single(headers: &HeaderMap, name: header::HeaderName) -> Option<&str> {
    let mut values = headers.get_all(name).iter();
    let first = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(first)
}

/// What a body may have: no more than fits into a message.
pub(super) fn body_bytes_max(limit: u64) -> usize {
    usize::try_from(limit)
        .unwrap_or(usize::MAX)
        .min(BODY_BYTES_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn doors(origins: &[&str]) -> Doors {
        let address = "127.0.0.1:8080".parse().unwrap();
        Doors {
            hosts: AllowedHosts::new(address, &["shop.example".to_owned()]),
            origins: origins.iter().map(|origin| (*origin).to_owned()).collect(),
        }
    }

    fn is_let_in(doors: &Doors, headers: &[(&'static str, &str)]) -> bool {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().unwrap());
        }
        doors.refusal(&map).is_none()
    }

    #[test]
    fn pages_of_others_are_kept_out() {
        let doors = doors(&["https://front.example"]);
        let host = ("host", "localhost:8080");
        assert!(is_let_in(&doors, &[host]));
        assert!(is_let_in(&doors, &[("host", "shop.example")]));
        assert!(is_let_in(
            &doors,
            &[host, ("origin", "http://localhost:8080")]
        ));
        assert!(is_let_in(
            &doors,
            &[host, ("origin", "https://front.example")]
        ));
        let visit = [
            host,
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-mode", "navigate"),
        ];
        assert!(is_let_in(&doors, &visit));
        assert!(is_let_in(
            &doors,
            &[host, ("sec-fetch-site", "same-origin")]
        ));
        assert!(!is_let_in(&doors, &[]));
        assert!(!is_let_in(&doors, &[host, host]));
        assert!(!is_let_in(&doors, &[("host", "evil.example:8080")]));
        assert!(!is_let_in(
            &doors,
            &[host, ("origin", "https://evil.example")]
        ));
        assert!(!is_let_in(&doors, &[host, ("origin", "null")]));
        let twice = [
            host,
            ("origin", "https://front.example"),
            ("origin", "https://front.example"),
        ];
        assert!(!is_let_in(&doors, &twice));
        let picture = [
            host,
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-mode", "no-cors"),
        ];
        assert!(!is_let_in(&doors, &picture));
    }

    #[test]
    fn all_origins_may_be_let_in_but_not_all_names() {
        let doors = doors(&[ANY_ORIGIN]);
        let host = ("host", "127.0.0.1:8080");
        assert!(is_let_in(
            &doors,
            &[host, ("origin", "https://any.example")]
        ));
        assert!(!is_let_in(&doors, &[("host", "any.example:8080")]));
    }
}
