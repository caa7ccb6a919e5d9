//! `GET /`: a page for whoever opens the address that `hivewire up` prints.

use axum::http::header;
use axum::response::{IntoResponse, Response};

const PAGE: &str = "<!doctype html>
<html lang=\"en\">
<head><meta charset=\"utf-8\"><title>Hivewire</title></head>
<body>
<h1>Hivewire</h1>
<p>Workers and a durable message broker run here.</p>
<p>Its API is at <code>/api/v1</code>, described by <code>/api/v1/openapi.json</code>, its metrics at <code>/metrics</code>, its health at
<code>/health</code>. Send the token as <code>Authorization: Bearer TOKEN</code>.</p>
<p>On the command line: <code>hivewire queues</code>, <code>hivewire pub NAME MESSAGE</code>,
<code>hivewire sub NAME</code>; <code>hivewire ps</code>, <code>hivewire deploy FILE --as FLOW/STAGE</code>,
<code>hivewire ask FLOW/STAGE MESSAGE</code>.</p>
</body>
</html>
";

pub(super) async fn show() -> Response {
    ([(header::CONTENT_TYPE, "text/html; charset=utf-8")], PAGE).into_response()
}
