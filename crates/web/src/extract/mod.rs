//! What handlers take out of a request.
