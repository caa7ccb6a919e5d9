//! A node: the data folder, the broker and every listener, from start to drain.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use broker::{Broker, SystemClock};
use bus::Bus;
use bus::engines::EmbeddedBus;
use control::Ended;
use journal::{DiskStorage, JournalFailed, Recovery};
use kernel::metrics::Registry;
use kernel::{Clock, Name};
use listeners::{Address, Bound, ListenError, Listeners, check_bind};
use runtime::Runtime;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval_at, timeout};

use crate::alerts::{AlertError, AlertService, Plan};
use crate::cluster::{self, NodeError};
use crate::config::live::{LiveConfig, Parts, SharedConfig};
use crate::config::{Config, HttpSettings, KeepError, WorkerSettings};
use crate::data_folder::{self, DataError};
use crate::deploy::{Deployments, StoreError};
use crate::desk::Desk;
use crate::events::{Event, Events, kind};
use crate::flow_metrics::FlowCollector;
use crate::http::{self, HttpServer};
use crate::live::Live;
use crate::logging;
use crate::logs::{self, LogError, LogStore};
use crate::metrics::{BrokerCollector, StageCollector};
use crate::rates::Rates;
use crate::rest::{AllowedHosts, App, Running};
use crate::secret::Secret;
use crate::services::{MountError, ServiceCollector, Services};

const TIDY_EVERY: Duration = Duration::from_secs(1);
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// Why a node did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The data folder cannot be used.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The broker cannot start, for example because its journal is damaged.
    #[error("the data folder {} cannot be used: {source}", .folder.display())]
    Broker {
        /// The folder.
        folder: PathBuf,
        /// The reason.
        source: broker::StartError,
    },
    /// The address of HTTP is taken or cannot be used.
    #[error(
        "cannot listen for HTTP on {address}: {source}. Stop whatever listens there, or choose another address with --http ADDRESS or --http off"
    )]
    Http {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
    /// It cannot be a node among several.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// Components cannot run here.
    #[error("{0}: see `workers.components` in docs/reference/configuration.md")]
    Components(#[from] wasm::HostError),
    /// What was deployed before cannot be read.
    #[error(transparent)]
    Deployments(#[from] StoreError),
    /// What is set about alerts makes no sense.
    #[error(transparent)]
    Alerts(#[from] AlertError),
    /// What is set about logs makes no sense.
    #[error(transparent)]
    Logs(#[from] LogError),
    /// What was changed while the node ran cannot be read.
    #[error(transparent)]
    Changes(#[from] KeepError),
    /// A listener of a message protocol cannot start.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// A part of the start panicked, which is a bug.
    #[error("the start broke off: {0}")]
    Broken(#[from] tokio::task::JoinError),
}

/// A running node.
pub struct Node {
    engine: Engine,
    listeners: Option<Listeners>,
    http: Option<HttpServer>,
    app: Arc<App>,
    bound: Vec<Bound>,
    deployments: Arc<Deployments>,
    config: SharedConfig,
    stop: watch::Sender<bool>,
    tidying: Option<JoinHandle<()>>,
    watching: Vec<JoinHandle<()>>,
    events: Arc<Events>,
    services: Arc<Services>,
    serving: JoinHandle<()>,
}

/// What carries the messages of a node.
struct Engine {
    bus: Arc<dyn Bus>,
    own: Option<OwnBroker>,
    /// Keeps the data folder, where no broker does.
    _folder: Option<DiskStorage>,
}

/// The broker in this process.
struct OwnBroker {
    broker: Arc<Broker>,
    recovery: Recovery,
}

impl Engine {
    fn clock(&self) -> Arc<dyn Clock> {
        match &self.own {
            Some(own) => own.broker.clock().clone(),
            None => Arc::new(SystemClock),
        }
    }
}

impl Node {
    /// Takes the data folder, reads the journal back, and starts every listener. HTTP answers from
    /// the beginning, that the node is not ready; [`Node`] is there when it is.
    pub async fn start(config: Config) -> Result<Self, StartError> {
        Plan::new(&config.alerts)?;
        config.logs.check()?;
        let storage = data_folder::open(&config.data)?;
        let token = data_folder::token(&config.data)?;
        let live = Arc::new(LiveConfig::open(config)?);
        let config = live.effective();
        if let Ok(filter) = logs::filter_of(&config.logs.filter) {
            logging::set_filter(filter);
        }
        let logs = Arc::new(LogStore::open(&config.data, config.logs.clone()));
        let started = Self::start_parts(live, storage, token, logs.clone()).await;
        if started.is_err() {
            close_logs(logs).await;
        }
        started
    }

    async fn start_parts(
        live: SharedConfig,
        storage: DiskStorage,
        token: Secret,
        logs: Arc<LogStore>,
    ) -> Result<Self, StartError> {
        let config = live.effective();
        let plan = Plan::new(&config.alerts)?;
        let (stop, stopped) = watch::channel(false);
        if let Address::At(address) = config.services.address {
            check_bind(address, config.services.allow_remote, "services")?;
        }
        let listener = bind_http(&config.http)?;
        let address = match &listener {
            Some(listener) => Some(listener.local_addr().map_err(|source| StartError::Http {
                address: ([0, 0, 0, 0], 0).into(),
                source,
            })?),
            None => None,
        };
        let app = Arc::new(new_app(&config, token, address, &logs, stopped.clone()));
        let http =
            listener.map(|listener| HttpServer::serve(listener, app.clone(), stopped.clone()));
        let name = config.node.checked_name()?;
        let labels = config.node.checked_labels()?;
        let engine = match &name {
            Some(name) if !config.node.bus.is_empty() => {
                join_engine(&config, name, storage).await?
            }
            _ => start_engine(&config, storage).await?,
        };
        let events = Events::start(
            engine.bus.clone(),
            engine.clock(),
            config.node.name.clone(),
            &stopped,
        );
        let deployments = match start_deployments(&config, &engine, name.clone(), &logs).await {
            Ok(deployments) => deployments,
            Err(error) => {
                close_after_failure(&engine).await;
                return Err(error);
            }
        };
        deployments.tell_to(events.clone());
        let listening = match &engine.own {
            Some(own) => listeners::start(own.broker.clone(), config.listeners)
                .await
                .map(Some),
            None => Ok(None),
        };
        let reached_at = address.map(http::reachable);
        let listeners = match listening {
            Ok(listeners) => listeners,
            Err(error) => {
                stop_workers(&deployments, Duration::ZERO).await;
                close_after_failure(&engine).await;
                return Err(error.into());
            }
        };
        if let Some(name) = name {
            let settings = control::NodeSettings {
                name,
                labels,
                address: reached_at,
                rules: control::Rules::default(),
            };
            if let Err(error) = join(&config.data, &engine, &deployments, settings).await {
                stop_workers(&deployments, Duration::ZERO).await;
                close_after_failure(&engine).await;
                return Err(error);
            }
        }
        let bound = all_bound(address, listeners.as_ref());
        let rates = Arc::new(Rates::default());
        let broker = engine.own.as_ref().map(|own| own.broker.clone());
        let alerts = Arc::new(AlertService::new(
            plan,
            engine.bus.clone(),
            engine.clock(),
            config.data.clone(),
            events.clone(),
        ));
        let mut registry = Registry::default();
        let own = registry.sub_registry_with_prefix("hivewire");
        register(own, broker.as_ref(), listeners.as_ref(), &app, &deployments);
        alerts.counters().register(own);
        events.register(own);
        logs.counters().register(own);
        let services = Services::new(config.services.clone(), deployments.clone());
        own.register_collector(Box::new(ServiceCollector(services.clone())));
        own.register_collector(Box::new(services.mounted_collector()));
        registry.register_collector(Box::new(FlowCollector(deployments.flow_metrics().clone())));
        live.attach(Parts {
            logs: logs.clone(),
            http_connections_max: app.connections_max.clone(),
            broker: broker.clone(),
            deployments: deployments.clone(),
            alerts: alerts.clone(),
        });
        let (clock, parts) = (engine.clock(), deployments.clone());
        let desk = Desk::new(
            &engine.bus,
            clock,
            live.clone(),
            logs,
            parts,
            alerts.clone(),
        );
        let shared_bus = deployments.agent().map(|_| engine.bus.clone());
        let live_numbers = Live::new(events.node(), shared_bus);
        let running = Arc::new(Running {
            broker: broker.clone(),
            bound: bound.clone(),
            clients: listeners.as_ref().map(|l| l.clients().clone()),
            reached_at,
            buses: config.node.shown_buses(),
            rates: rates.clone(),
            registry,
            deployments: deployments.clone(),
            alerts: alerts.clone(),
            events: events.clone(),
            live: live_numbers.clone(),
            desk,
            services: services.clone(),
        });
        if app.running.set(running.clone()).is_err() {
            unreachable!("a node is started once");
        }
        let watching = vec![
            tokio::spawn(alerts.watch(running.clone(), stopped.clone())),
            tokio::spawn(events.clone().watch(running.clone(), stopped.clone())),
            tokio::spawn(live_numbers.run(running, stopped.clone())),
        ];
        let serving = tokio::spawn(services.clone().run(events.clone(), stopped.clone()));
        events.tell(joined(reached_at));
        let tidying = broker.map(|broker| tokio::spawn(tidy(broker, rates, stopped)));
        Ok(Self {
            engine,
            listeners,
            http,
            app,
            bound,
            deployments,
            config: live,
            stop,
            tidying,
            watching,
            events,
            services,
            serving,
        })
    }

    /// What listens where.
    pub fn bound(&self) -> &[Bound] {
        &self.bound
    }

    /// The token that the REST interface asks for.
    pub fn token(&self) -> &Secret {
        &self.app.token
    }

    /// What was found in the journal, if there is a broker in this process.
    pub fn recovery(&self) -> Option<&Recovery> {
        self.engine.own.as_ref().map(|own| &own.recovery)
    }

    /// The broker in this process, for those who embed a node; none on a bus that others share.
    pub fn broker(&self) -> Option<&Arc<Broker>> {
        self.engine.own.as_ref().map(|own| &own.broker)
    }

    /// Waits until the node has to end by itself: it was told to stop, or another one has its name.
    /// Alone it never does.
    pub async fn ended(&self) -> Ended {
        match self.deployments.agent() {
            Some(agent) => agent.ended().await,
            None => std::future::pending().await,
        }
    }

    /// The runtime, for those who embed a node: stages of native code are deployed here.
    pub fn runtime(&self) -> &Arc<Runtime> {
        self.deployments.runtime()
    }

    /// What is deployed, for those who embed a node: stages of components are deployed here.
    pub fn deployments(&self) -> &Arc<Deployments> {
        &self.deployments
    }

    /// Serves this below a path such as `/shop`, where `services.address` of the configuration says. Its handlers can take
    /// [`web::Stages`].
    pub fn mount(&self, prefix: &str, service: web::Service) -> Result<web::Running, MountError> {
        self.services.mount(prefix, service)
    }

    /// Where services listen, as soon as they do; none if that takes longer than this.
    pub async fn services_address(&self, within: Duration) -> Option<SocketAddr> {
        timeout(within, self.services.address()).await.ok()
    }

    /// How long [`Node::drain`] may take, as it is configured now.
    pub fn drain_patience(&self) -> Duration {
        Duration::from_secs(self.config.effective().node.drain_seconds_max)
    }

    /// Stops accepting, lets sessions and turns end for at most `patience`, and closes the journal.
    pub async fn drain(self, patience: Duration) -> Result<(), JournalFailed> {
        self.events.tell(Event::new(kind::NODE, "left"));
        self.events.flush(patience.min(CLOSE_TIMEOUT)).await;
        self.stop.send_replace(true);
        // Who has the broker need not hand over: without it nobody could go on.
        if self.engine.own.is_none()
            && let Some(agent) = self.deployments.agent()
        {
            agent.leave(patience).await;
        }
        let http = async {
            if let Some(http) = self.http {
                http.drain(patience).await;
            }
        };
        let services = async {
            if timeout(patience, self.serving).await.is_err() {
                tracing::warn!("requests to services are cut off");
            }
        };
        let workers = stop_workers(&self.deployments, patience);
        let listeners = async {
            if let Some(listeners) = self.listeners {
                listeners.drain(patience).await;
            }
        };
        let events = self.events.closed(patience.min(CLOSE_TIMEOUT));
        tokio::join!(listeners, http, services, workers, events);
        let logs = self.app.logs.clone();
        if let Some(running) = self.app.running.get() {
            running.desk.close();
        }
        close_requests(self.app).await;
        if let Some(tidying) = self.tidying
            && let Err(error) = tidying.await
        {
            tracing::error!(%error, "housekeeping broke off");
        }
        for watching in self.watching {
            if let Err(error) = watching.await {
                tracing::error!(%error, "watching for alerts or events broke off");
            }
        }
        let closed = match self.engine.own {
            Some(own) => close_journal(own.broker).await,
            None => Ok(()),
        };
        close_logs(logs).await;
        closed
    }
}

/// Requests that were noted come to the disk before the process ends, unless the disk hangs.
async fn close_requests(app: Arc<App>) {
    let closing = tokio::task::spawn_blocking(move || app.requests.close());
    if timeout(CLOSE_TIMEOUT, closing).await.is_err() {
        tracing::warn!("the last requests may be missing in the files");
    }
}

fn joined(reached_at: Option<SocketAddr>) -> Event {
    let event = Event::new(kind::NODE, "joined").with("version", env!("CARGO_PKG_VERSION"));
    match reached_at {
        Some(address) => event.with("address", address.to_string()),
        None => event,
    }
}

/// What was logged comes to the disk before the process ends, unless the disk hangs.
async fn close_logs(logs: Arc<LogStore>) {
    let closing = tokio::task::spawn_blocking(move || logs.close());
    if timeout(CLOSE_TIMEOUT, closing).await.is_err() {
        tracing::warn!("the last lines may be missing in the log files");
    }
}

fn bind_http(settings: &HttpSettings) -> Result<Option<tokio::net::TcpListener>, StartError> {
    let Address::At(address) = settings.address else {
        return Ok(None);
    };
    check_bind(address, settings.allow_remote, "http")?;
    match http::bind(address) {
        Ok(listener) => Ok(Some(listener)),
        Err(source) => Err(StartError::Http { address, source }),
    }
}

fn new_app(
    config: &Config,
    token: Secret,
    address: Option<SocketAddr>,
    logs: &Arc<LogStore>,
    stopped: watch::Receiver<bool>,
) -> App {
    let address = address.unwrap_or_else(|| ([127, 0, 0, 1], 0).into());
    let hosts = AllowedHosts::new(address, &config.http.hosts);
    let app = App::new(config.data.clone(), token, hosts, logs.clone(), stopped);
    let connections_max = config.http.connections_max;
    app.connections_max
        .store(connections_max, Ordering::Relaxed);
    app
}

/// Reading the journal back can take a while, and HTTP must answer meanwhile.
async fn start_engine(config: &Config, storage: DiskStorage) -> Result<Engine, StartError> {
    let (options, settings) = (config.journal.clone(), config.broker.clone());
    let state = data_folder::state_path(&config.data);
    let started = tokio::task::spawn_blocking(move || {
        let (storage, clock) = (Arc::new(storage), Arc::new(SystemClock));
        Broker::start_with_state(&state, storage, options, settings, clock)
    });
    let (broker, recovery) = started.await?.map_err(|source| StartError::Broker {
        folder: config.data.clone(),
        source,
    })?;
    Ok(Engine {
        bus: Arc::new(EmbeddedBus::new(broker.clone())),
        own: Some(OwnBroker { broker, recovery }),
        _folder: None,
    })
}

/// The bus that the nodes share, once it serves.
async fn join_engine(
    config: &Config,
    name: &Name,
    folder: DiskStorage,
) -> Result<Engine, StartError> {
    let bus = cluster::connect(&config.node, name)?;
    cluster::reach(&*bus).await?;
    Ok(Engine {
        bus,
        own: None,
        _folder: Some(folder),
    })
}

/// What was deployed before runs again when this returns.
async fn start_deployments(
    config: &Config,
    engine: &Engine,
    node: Option<Name>,
    logs: &LogStore,
) -> Result<Arc<Deployments>, StartError> {
    let WorkerSettings {
        runtime,
        components,
        limits: _,
    } = config.workers.clone();
    // Setting up room for instances takes a while.
    let host = tokio::task::spawn_blocking(move || wasm::Host::new(components)).await??;
    let bus = engine.bus.clone();
    let clock = engine.clock();
    let runtime = Runtime::start(bus.clone(), runtime, clock.clone());
    runtime.tap_logs(logs.tap());
    let starting = Deployments::start(
        runtime.clone(),
        host,
        bus,
        &config.data,
        config.deploy.clone(),
        clock,
        node,
    );
    match starting.await {
        Ok(deployments) => {
            if let Some(own) = &engine.own {
                deployments.see_broker(own.broker.clone());
            }
            Ok(deployments)
        }
        Err(error) => {
            runtime.shutdown(Duration::ZERO).await;
            Err(error.into())
        }
    }
}

/// From now on this node has its part in what all nodes share.
async fn join(
    data: &Path,
    engine: &Engine,
    deployments: &Arc<Deployments>,
    settings: control::NodeSettings,
) -> Result<(), StartError> {
    // On a bus that others share, what stood alone may stand there still.
    if engine.own.is_some() {
        deployments.adopt(data).await?;
    }
    deployments.join(settings).await.map_err(NodeError::Bus)?;
    Ok(())
}

/// Workers finish their turns and are saved.
async fn stop_workers(deployments: &Deployments, patience: Duration) {
    deployments.stop_watching();
    deployments.runtime().shutdown(patience).await;
}

/// If something cannot start, the journal that was opened is closed in good order.
async fn close_after_failure(engine: &Engine) {
    if let Some(own) = &engine.own
        && let Err(failed) = close_journal(own.broker.clone()).await
    {
        tracing::warn!(error = %failed, "the journal was not closed in good order");
    }
}

async fn close_journal(broker: Arc<Broker>) -> Result<(), JournalFailed> {
    let closed = tokio::task::spawn_blocking(move || broker.journal().shutdown()).await;
    closed.unwrap_or_else(|error| {
        let reason = format!("closing it broke off: {error}").into();
        Err(JournalFailed { reason })
    })
}

fn all_bound(http: Option<SocketAddr>, listeners: Option<&Listeners>) -> Vec<Bound> {
    let http = http.map(|address| Bound {
        protocol: "http",
        transport: "tcp",
        address,
    });
    let listening = listeners.into_iter().flat_map(Listeners::bound);
    http.into_iter().chain(listening.cloned()).collect()
}

fn register(
    registry: &mut Registry,
    broker: Option<&Arc<Broker>>,
    listeners: Option<&Listeners>,
    app: &App,
    deployments: &Arc<Deployments>,
) {
    if let Some(broker) = broker {
        broker.register(registry);
        registry.register_collector(Box::new(BrokerCollector(broker.clone())));
    }
    if let Some(listeners) = listeners {
        listeners.register(registry);
    }
    app.counters.register(registry);
    registry.register_collector(Box::new(StageCollector(deployments.runtime().clone())));
}

/// Once a second: forgets names nobody uses, empties old segments, measures rates.
async fn tidy(broker: Arc<Broker>, rates: Arc<Rates>, mut stopped: watch::Receiver<bool>) {
    let mut last = Instant::now();
    // A rate over the moment since the start would be a large number that means nothing.
    let mut ticks = interval_at((last + TIDY_EVERY).into(), TIDY_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = http::stopped(&mut stopped) => return,
        }
        let elapsed = last.elapsed();
        last = Instant::now();
        let (broker, rates) = (broker.clone(), rates.clone());
        let tidied = tokio::task::spawn_blocking(move || {
            broker.tidy();
            rates.measure(&broker, elapsed);
        });
        if let Err(error) = tidied.await {
            tracing::error!(%error, "housekeeping panicked; it goes on in a second");
        }
    }
}
