//! `/api/v1/clients`

use axum::Json;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query};
use listeners::{ClientSubscription, ClientView};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::app::Node;
use super::paging::{checked, next_of};
use super::problem::Problem;
use super::views::bad_query;

const LIMIT_DEFAULT: usize = 100;
const LIMIT_MAX: usize = 1_000;

/// Which clients somebody wants to see.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ClientsQuery {
    /// The `next` of the page before.
    after: Option<u64>,
    /// How many at most: 100 unless it says otherwise, and never more than 1,000.
    #[schemars(range(max = LIMIT_MAX))]
    limit: Option<usize>,
}

/// Clients that are connected to this node, in the order in which they came.
#[derive(Serialize, JsonSchema)]
pub(super) struct ClientPage {
    clients: Vec<ClientShown>,
    /// What to give as `after` for the next page; null if this was the last one.
    next: Option<String>,
}

/// A client that is connected.
#[derive(Serialize, JsonSchema)]
pub(super) struct ClientShown {
    id: u64,
    /// `stomp` or `gamq`.
    protocol: &'static str,
    /// Where it is.
    address: String,
    /// Since when, in milliseconds since 1970.
    connected_at_ms: u64,
    /// The user that it has logged in as.
    user: Option<String>,
    /// How many messages it has sent; null if it is too busy to be asked.
    sent: Option<u64>,
    /// How many messages it has received; null if it is too busy to be asked.
    received: Option<u64>,
    subscriptions: Vec<SubscriptionShown>,
}

/// What a client has subscribed to.
#[derive(Serialize, JsonSchema)]
pub(super) struct SubscriptionShown {
    /// `queue:NAME` or `topic:NAME`.
    destination: String,
    /// How many messages it has not acknowledged.
    waiting_acks: u64,
    /// How many it may have without acknowledging them; null if it acknowledges nothing.
    prefetch: Option<u32>,
}

/// A client that was hung up on.
#[derive(Serialize, JsonSchema)]
pub(super) struct HungUp {
    id: u64,
}

impl From<ClientSubscription> for SubscriptionShown {
    fn from(subscription: ClientSubscription) -> Self {
        Self {
            destination: subscription.destination,
            waiting_acks: subscription.waiting_acks,
            prefetch: subscription.prefetch,
        }
    }
}

impl From<ClientView> for ClientShown {
    fn from(client: ClientView) -> Self {
        let said = client.said;
        let subscriptions = said.as_ref().map(|said| said.subscriptions.clone());
        let subscriptions = subscriptions.unwrap_or_default().into_iter();
        Self {
            id: client.id,
            protocol: client.protocol,
            address: client.address.to_string(),
            connected_at_ms: client.connected_at.as_millis(),
            sent: said.as_ref().map(|said| said.sent),
            received: said.as_ref().map(|said| said.received),
            user: said.and_then(|said| said.user),
            subscriptions: subscriptions.map(SubscriptionShown::from).collect(),
        }
    }
}

pub(super) async fn list(
    Node(running): Node,
    query: Result<Query<ClientsQuery>, QueryRejection>,
) -> Result<Json<ClientPage>, Problem> {
    let Query(query) = query.map_err(bad_query)?;
    let limit = checked(query.limit, LIMIT_DEFAULT, LIMIT_MAX)?;
    let clients = match &running.clients {
        Some(clients) => clients.list(query.after.unwrap_or(0), limit + 1).await,
        None => Vec::new(),
    };
    let (clients, next) = next_of(clients, limit, |client| client.id.to_string());
    Ok(Json(ClientPage {
        clients: clients.into_iter().map(ClientShown::from).collect(),
        next,
    }))
}

pub(super) async fn hang_up(
    Node(running): Node,
    path: Result<Path<u64>, PathRejection>,
) -> Result<Json<HungUp>, Problem> {
    let Path(id) = path.map_err(|error| Problem::bad_request(error.body_text()))?;
    let clients = running.clients.as_ref();
    match clients.is_some_and(|clients| clients.hang_up(id)) {
        true => Ok(Json(HungUp { id })),
        false => Err(Problem::not_found(format!("no client {id} is connected"))),
    }
}
