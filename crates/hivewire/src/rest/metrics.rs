//! `GET /metrics`

use axum::http::header;
use axum::response::IntoResponse;

use super::app::Node;

const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

pub(super) async fn show(Node(running): Node) -> impl IntoResponse {
    let text = kernel::metrics::to_text(&running.registry);
    ([(header::CONTENT_TYPE, CONTENT_TYPE)], text)
}
