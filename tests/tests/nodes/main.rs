//! What a node may do over STOMP, frame by frame: commits with state, requests, documents.

mod access;
mod commits;
mod documents;
mod requests;
mod rig;
