//! Services: requests over HTTP that stages of flows answer, and handlers in Rust for those who embed a node.
//!
//! They have a listener of their own, so that what a service answers is another origin to browsers than the studio. It is
//! there as soon as there is something to be answered.

mod collector;
mod dispatch;
mod exchange;
mod mounted;
mod numbers;
mod settings;
mod table;
mod views;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::HeaderValue;
use axum::response::Response;
use kernel::metrics::Counter;
use listeners::Address;
use parking_lot::{Mutex, RwLock};
use tokio::net::TcpListener;
use tokio::sync::{Notify, watch};
use tower_http::cors::{AllowOrigin, Any, CorsLayer};
use web::edge::{EdgeHandle, Serving, serve};

use self::dispatch::{ANY_ORIGIN, Doors, Front, dispatch};
use self::mounted::Mounted;
use self::table::Table;
use crate::deploy::Deployments;
use crate::events::{Events, Filter, Position, Subscriber, kind};
use crate::http;
use crate::rest::AllowedHosts;

pub(crate) use self::collector::ServiceCollector;
pub use self::mounted::MountError;
pub use self::settings::ServiceSettings;
pub(crate) use self::views::ServicesShown;

/// How often is looked for routes, should an event have been missed.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// The services of a node.
pub(crate) struct Services {
    settings: ServiceSettings,
    deployments: Arc<Deployments>,
    table: RwLock<Arc<Table>>,
    mounted: RwLock<Arc<Mounted>>,
    listener: Mutex<Listener>,
    /// One looks for routes at a time.
    order: tokio::sync::Mutex<()>,
    changed: Notify,
    /// Where services listen.
    at: watch::Sender<Option<SocketAddr>>,
    /// Requests refused because of where they came from.
    refused: Counter,
}

/// Where services listen.
enum Listener {
    /// Nobody needed it yet.
    Unneeded,
    At {
        address: SocketAddr,
        edge: EdgeHandle,
        serving: Option<Serving>,
    },
    /// Why not.
    Failed(String),
}

impl Services {
    pub fn new(settings: ServiceSettings, deployments: Arc<Deployments>) -> Arc<Self> {
        Arc::new(Self {
            settings,
            deployments,
            table: RwLock::default(),
            mounted: RwLock::default(),
            listener: Mutex::new(Listener::Unneeded),
            order: tokio::sync::Mutex::default(),
            changed: Notify::new(),
            at: watch::Sender::new(None),
            refused: Counter::default(),
        })
    }

    fn table(&self) -> Arc<Table> {
        self.table.read().clone()
    }

    fn mounted(&self) -> Arc<Mounted> {
        self.mounted.read().clone()
    }

    fn body_bytes_max(&self) -> usize {
        dispatch::body_bytes_max(self.settings.limits.body_bytes_max)
    }

    /// What is no route of a flow is for the handlers that were mounted.
    async fn mounted_answer(&self, request: Request) -> Response {
        self.mounted().answer(request).await
    }

    /// Serves until the node stops, and then until what is under way is answered.
    pub async fn run(self: Arc<Self>, events: Arc<Events>, mut stopped: watch::Receiver<bool>) {
        let filter = Filter {
            kinds: vec![kind::FLOW.to_owned()],
            ..Filter::default()
        };
        // Without it, it takes a little longer until something new is seen.
        let mut told = Subscriber::new(&events, filter, Position::Now).ok();
        loop {
            self.refresh().await;
            tokio::select! {
                () = http::stopped(&mut stopped) => break,
                () = heard(&mut told) => {}
                () = self.changed.notified() => {}
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
        }
        drop(told);
        self.end().await;
    }

    /// Goes by the documents of all flows as they are now.
    pub async fn refresh(self: &Arc<Self>) {
        let _order = self.order.lock().await;
        match self.deployments.flow_documents().await {
            Ok(records) => {
                let documents = records.iter().map(|record| &record.document);
                let table = Table::of(documents, &self.table());
                *self.table.write() = Arc::new(table);
            }
            Err(error) => {
                tracing::warn!(%error, "the routes of flows cannot be read: those known before hold");
            }
        }
        if self.is_needed() {
            self.listen();
        }
    }

    fn is_needed(&self) -> bool {
        !self.table().routes.is_empty() || !self.mounted().is_empty()
    }

    /// Listens, unless it does.
    fn listen(self: &Arc<Self>) {
        let mut listener = self.listener.lock();
        let before = match &*listener {
            Listener::At { .. } => return,
            Listener::Failed(reason) => Some(reason),
            Listener::Unneeded => None,
        };
        match self.bind() {
            Ok((socket, address)) => {
                tracing::info!(%address, "services listen");
                let limits = self.settings.limits.clone();
                let serving = serve(socket, self.router(address), limits, std::future::pending());
                self.at.send_replace(Some(address));
                *listener = Listener::At {
                    address,
                    edge: serving.handle(),
                    serving: Some(serving),
                };
            }
            Err(reason) => {
                if before != Some(&reason) {
                    tracing::warn!(reason, "services are not reached");
                }
                *listener = Listener::Failed(reason);
            }
        }
    }

    /// Where services listen, once they do.
    pub async fn address(&self) -> SocketAddr {
        let mut at = self.at.subscribe();
        loop {
            if let Some(address) = *at.borrow_and_update() {
                return address;
            }
            if at.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    fn bind(&self) -> Result<(TcpListener, SocketAddr), String> {
        let Address::At(address) = self.settings.address else {
            return Err("services are switched off: give `services.address` in the configuration an address, such as 127.0.0.1:8080, and start the node again".to_owned());
        };
        let bound = http::bind(address).and_then(|socket| {
            let address = socket.local_addr()?;
            Ok((socket, address))
        });
        bound.map_err(|error| format!("services cannot listen on {address}: {error}. Stop whatever listens there, or give `services.address` in the configuration another one and start the node again"))
    }

    fn router(self: &Arc<Self>, address: SocketAddr) -> Router {
        let origins = self.settings.origins.iter();
        let origins: Vec<String> = origins.map(|origin| origin.to_lowercase()).collect();
        let router = Router::new().fallback(dispatch);
        let router = match origins.is_empty() {
            true => router,
            false => router.layer(cors(&origins)),
        };
        let front = Front {
            services: self.clone(),
            doors: Doors {
                hosts: AllowedHosts::new(address, &self.settings.hosts),
                origins,
            },
        };
        router.with_state(Arc::new(front))
    }

    /// Takes no more requests, and waits until those under way are answered or their time is over.
    async fn end(&self) {
        let serving = match &mut *self.listener.lock() {
            Listener::At { serving, .. } => serving.take(),
            Listener::Unneeded | Listener::Failed(_) => None,
        };
        if let Some(serving) = serving {
            serving.handle().stop();
            serving.ended().await;
        }
        self.mounted().stop();
    }
}

/// Waits until something happens to a flow.
async fn heard(told: &mut Option<Subscriber>) {
    match told {
        Some(told) => {
            told.next().await;
        }
        None => std::future::pending().await,
    }
}

/// Tells browsers that pages of these origins may ask.
fn cors(origins: &[String]) -> CorsLayer {
    let layer = CorsLayer::new().allow_methods(Any).allow_headers(Any);
    if origins.iter().any(|origin| origin == ANY_ORIGIN) {
        return layer.allow_origin(Any);
    }
    let origins = origins.iter();
    let origins: Vec<HeaderValue> = origins.filter_map(|origin| origin.parse().ok()).collect();
    layer.allow_origin(AllowOrigin::list(origins))
}
