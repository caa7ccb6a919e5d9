//! Connections: HTTP over sockets, within limits.
