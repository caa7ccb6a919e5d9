//! `GET /metrics`

use axum::http::header;
use axum::response::{IntoResponse, Response};

use super::app::Node;

pub(super) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

pub(super) async fn show(Node(running): Node) -> Response {
    let text = kernel::metrics::to_text(&running.registry);
    ([(header::CONTENT_TYPE, CONTENT_TYPE)], text).into_response()
}
