//! The host: the engines for all components of this process.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use kernel::worker::{CodeInfo, InstanceLimits, Start};
use kernel::{StageAddress, descriptor};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use wasmtime::Engine;
use wasmtime::component::{Component, InstancePre, Linker};

use crate::bindings::router::RouterPre;
use crate::check::{World, check};
use crate::compile::Compiler;
use crate::data::Data;
use crate::failures::one_line;
use crate::instance::Shared;
use crate::router::Router;
use crate::ticks::Ticker;
use crate::worker::WorkerCode;
use crate::{HostError, LoadError, Settings, engine, imports, wasi};

const DIGITS_OF_VERSION: usize = 12;

/// Compiles components and makes instances of them. There is one in a process.
pub struct Host {
    settings: Settings,
    /// For components with little data.
    copying: Pool,
    /// For the others.
    mapping: Pool,
    compiler: Compiler,
    /// What is in use, by digest.
    loaded: Mutex<HashMap<String, Weak<WorkerCode>>>,
}

/// An engine, in whose pool instances live, and what their components are linked with.
struct Pool {
    shared: Shared,
    worker_linker: Arc<Linker<Data>>,
    router_linker: Arc<Linker<Data>>,
}

impl Pool {
    fn new(engine: Engine, ticker: &Arc<Ticker>, settings: &Settings) -> Result<Self, HostError> {
        let link = |link: fn(&mut Linker<Data>) -> wasmtime::Result<()>| {
            let mut linker = Linker::new(&engine);
            wasi::add_to_linker(&mut linker)
                .and_then(|()| link(&mut linker))
                .map(|()| Arc::new(linker))
                .map_err(|error| HostError::Engine {
                    instances: settings.instances_max,
                    reason: one_line(&error),
                })
        };
        Ok(Self {
            worker_linker: link(imports::add_to_linker)?,
            router_linker: link(|_| Ok(()))?,
            shared: Shared {
                engine,
                ticker: ticker.clone(),
                stack_bytes_max: settings.stack_bytes_max,
            },
        })
    }
}

impl Host {
    /// Sets up the engines and starts the thread that counts their ticks. The thread ends when the host
    /// and everything that came from it are gone.
    pub fn new(settings: Settings) -> Result<Arc<Self>, HostError> {
        let copying = engine::engine(&settings, engine::Data::Copied)?;
        let mapping = engine::engine(&settings, engine::Data::Mapped)?;
        let ticker = Arc::new(Ticker::start(vec![copying.clone(), mapping.clone()])?);
        Ok(Arc::new(Self {
            copying: Pool::new(copying, &ticker, &settings)?,
            mapping: Pool::new(mapping, &ticker, &settings)?,
            compiler: Compiler::new(settings.compiles_max, settings.compile_ms_max),
            loaded: Mutex::new(HashMap::new()),
            settings,
        }))
    }

    fn pool(&self, data_bytes: u64) -> &Pool {
        match engine::Data::for_bytes(data_bytes) {
            engine::Data::Copied => &self.copying,
            engine::Data::Mapped => &self.mapping,
        }
    }

    /// What it may use up.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Checks the component of a worker without compiling it: its size, its parts, what it imports
    /// and exports. Nothing of it runs.
    pub fn check(&self, bytes: &[u8]) -> Result<(), LoadError> {
        check(bytes, World::Worker, &self.settings)?;
        Ok(())
    }

    /// Checks and compiles the component of a worker. It blocks the calling thread, from
    /// milliseconds to many seconds; what is loaded already comes at once.
    pub fn load(&self, bytes: &[u8]) -> Result<Arc<WorkerCode>, LoadError> {
        let pool = self.pool(check(bytes, World::Worker, &self.settings)?);
        let info = info(bytes)?;
        if let Some(code) = self.loaded.lock().get(&info.digest).and_then(Weak::upgrade) {
            return Ok(code);
        }
        let shared = pool.shared.clone();
        let code = self.compile(bytes, World::Worker, pool, |pre| {
            let code = WorkerCode::new(info, pre, shared).map_err(exports)?;
            match code.make(&first_start(InstanceLimits::default())) {
                Ok(_) => Ok(code),
                Err(failure) => Err(instance(failure)),
            }
        })?;
        Ok(self.remember(Arc::new(code)))
    }

    /// Checks and compiles the component of a router, under the limits that the settings name for
    /// routers. It blocks as [`Host::load`] does.
    pub fn load_router(&self, bytes: &[u8]) -> Result<Arc<Router>, LoadError> {
        let pool = self.pool(check(bytes, World::Router, &self.settings)?);
        let info = info(bytes)?;
        let shared = pool.shared.clone();
        let limits = self.settings.router.clone();
        let router = self.compile(bytes, World::Router, pool, |pre| {
            let pre = RouterPre::new(pre).map_err(exports)?;
            let router = Router::new(info, pre, shared, limits);
            match router.make() {
                Ok(_) => Ok(router),
                Err(failure) => Err(instance(failure)),
            }
        })?;
        Ok(Arc::new(router))
    }

    /// Compiles, links, and makes what `finish` makes of it.
    fn compile<T: Send + 'static>(
        &self,
        bytes: &[u8],
        world: World,
        pool: &Pool,
        finish: impl FnOnce(InstancePre<Data>) -> Result<T, LoadError> + Send + 'static,
    ) -> Result<T, LoadError> {
        let engine = pool.shared.engine.clone();
        let linker = match world {
            World::Worker => pool.worker_linker.clone(),
            World::Router => pool.router_linker.clone(),
        };
        let bytes = bytes.to_vec();
        self.compiler.run(move || {
            let component = Component::from_binary(&engine, &bytes)
                .and_then(|component| {
                    // Else the first instance would have to do it.
                    component.initialize_copy_on_write_image()?;
                    Ok(component)
                })
                .map_err(|error| LoadError::Compile {
                    reason: one_line(&error),
                })?;
            let pre = linker
                .instantiate_pre(&component)
                .map_err(|error| LoadError::Types {
                    world: world.name(),
                    reason: one_line(&error),
                })?;
            finish(pre)
        })
    }

    /// Keeps the code for others who load the same; the first one wins.
    fn remember(&self, code: Arc<WorkerCode>) -> Arc<WorkerCode> {
        let mut loaded = self.loaded.lock();
        loaded.retain(|_, code| code.strong_count() > 0);
        let digest = kernel::worker::Code::info(&*code).digest.clone();
        if let Some(other) = loaded.get(&digest).and_then(Weak::upgrade) {
            return other;
        }
        loaded.insert(digest, Arc::downgrade(&code));
        code
    }
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Host")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

fn exports(error: wasmtime::Error) -> LoadError {
    LoadError::Types {
        world: World::Worker.name(),
        reason: one_line(&error),
    }
}

fn instance(failure: kernel::worker::Failure) -> LoadError {
    LoadError::Instance {
        reason: failure.reason,
    }
}

/// How the first instance starts, which only shows that there can be one.
fn first_start(limits: InstanceLimits) -> Start {
    let stage = StageAddress::new("first", "instance").expect("both are names");
    Start {
        address: stage.worker(0),
        limits,
    }
}

/// What the component says about itself, or what can be said without its help.
fn info(bytes: &[u8]) -> Result<CodeInfo, LoadError> {
    let digest: String = Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let described = descriptor::read(bytes)?.unwrap_or_default();
    let or = |text: String, other: &str| match text.is_empty() {
        true => other.to_owned(),
        false => text,
    };
    Ok(CodeInfo {
        name: or(described.name, "worker"),
        version: or(described.version, &digest[..DIGITS_OF_VERSION]),
        digest,
        native: false,
        kind: described.kind,
        outputs: described.outputs.into_iter().map(|o| o.name).collect(),
        capabilities: described.capabilities,
    })
}
