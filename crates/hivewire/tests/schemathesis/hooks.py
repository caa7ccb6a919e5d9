"""Components are bytes like any others."""

import schemathesis

schemathesis.serializer.alias("application/wasm", "application/octet-stream")
