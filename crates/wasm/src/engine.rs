//! The engine: how code is compiled, and where its instances live.

use std::path::Path;

use wasmtime::{
    Cache, CacheConfig, Config, Enabled, Engine, InstanceAllocationStrategy,
    PoolingAllocationConfig, WasmBacktraceDetails,
};

use crate::{HostError, Settings, failures};

/// Reserving all that 32 bits can address lets compiled code do without bounds checks.
const WHOLE_RESERVATION_BYTES: u64 = 4 << 30;
const WHOLE_GUARD_BYTES: u64 = 32 << 20;
const DENSE_GUARD_BYTES: u64 = 64 << 10;

/// A component of one Rust module has two tables, one of Python some more.
const TABLES_PER_INSTANCE: u32 = 3;

/// What is cleared by hand when an instance goes, instead of being given back to the system.
const KEEP_RESIDENT_BYTES: usize = 256 << 10;

/// Up to so many bytes of data are copied into each new instance.
const COPIED_DATA_BYTES_MAX: u64 = 128 << 10;

/// How the data of a component gets into the memory of a new instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Data {
    /// It is copied, which is cheapest for the little that a compiled language has.
    Copied,
    /// It is mapped, and a page is copied when it is written to. That pays off for interpreters,
    /// which bring megabytes.
    Mapped,
}

impl Data {
    /// What is better for so much data.
    pub(crate) fn for_bytes(bytes: u64) -> Self {
        match bytes <= COPIED_DATA_BYTES_MAX {
            true => Self::Copied,
            false => Self::Mapped,
        }
    }
}

/// An engine for these settings. If the operating system has no room for whole reservations, it
/// is made with dense ones.
pub(crate) fn engine(settings: &Settings, data: Data) -> Result<Engine, HostError> {
    let cache = match &settings.cache_folder {
        Some(folder) => Some(cache(folder)?),
        None => None,
    };
    let refused = match Engine::new(&config(settings, data, settings.dense, cache.clone())) {
        Ok(engine) => return Ok(engine),
        Err(refused) => refused,
    };
    if !settings.dense
        && let Ok(engine) = Engine::new(&config(settings, data, true, cache))
    {
        tracing::warn!(reason = %refused, "no room for whole reservations: components run with bounds checks");
        return Ok(engine);
    }
    Err(HostError::Engine {
        instances: settings.instances_max,
        reason: format!("{refused:#}"),
    })
}

fn config(settings: &Settings, data: Data, dense: bool, cache: Option<Cache>) -> Config {
    let mut config = Config::new();
    config
        .wasm_component_model(true)
        .concurrency_support(false)
        .epoch_interruption(true)
        .max_wasm_stack(settings.stack_bytes_max)
        .wasm_backtrace_max_frames(Some(failures::FRAMES_MAX))
        .wasm_backtrace_details(WasmBacktraceDetails::Disable)
        .memory_init_cow(data == Data::Mapped)
        .cache(cache)
        .allocation_strategy(InstanceAllocationStrategy::Pooling(pool(settings)));
    match dense {
        true => config
            .memory_reservation(settings.memory_bytes_max as u64)
            .memory_guard_size(DENSE_GUARD_BYTES),
        false => config
            .memory_reservation(WHOLE_RESERVATION_BYTES)
            .memory_guard_size(WHOLE_GUARD_BYTES),
    };
    config
}

/// Every limit follows from the number of instances, so that none is reached before the others.
fn pool(settings: &Settings) -> PoolingAllocationConfig {
    let instances = settings.instances_max;
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(instances)
        .total_core_instances(instances.saturating_mul(settings.modules_max))
        .total_memories(instances)
        .total_tables(instances.saturating_mul(TABLES_PER_INSTANCE))
        .max_unused_warm_slots(instances.min(1_000))
        .max_memory_size(settings.memory_bytes_max)
        .max_core_instances_per_component(settings.modules_max)
        .max_memories_per_component(settings.memories_max)
        .max_tables_per_component(settings.tables_max)
        .max_memories_per_module(settings.memories_max)
        .max_tables_per_module(settings.tables_max)
        .max_core_instance_size(4 << 20)
        .max_component_instance_size(4 << 20)
        .table_elements(settings.table_elements_max)
        .linear_memory_keep_resident(KEEP_RESIDENT_BYTES)
        .table_keep_resident(KEEP_RESIDENT_BYTES)
        .pagemap_scan(Enabled::Auto);
    pool
}

/// The store of compiled code. What lies there is run, so nobody else may write to it.
fn cache(folder: &Path) -> Result<Cache, HostError> {
    let refuse = |reason: String| HostError::Cache {
        folder: folder.to_owned(),
        reason,
    };
    make_own_folder(folder).map_err(refuse)?;
    let absolute = std::path::absolute(folder).map_err(|error| refuse(error.to_string()))?;
    let mut config = CacheConfig::new();
    config.with_directory(absolute);
    Cache::new(config).map_err(|error| refuse(format!("{error:#}")))
}

#[cfg(unix)]
fn make_own_folder(folder: &Path) -> Result<(), String> {
    use std::os::unix::fs::{DirBuilderExt, MetadataExt};

    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .map_err(|error| error.to_string())?;
    let metadata = std::fs::symlink_metadata(folder).map_err(|error| error.to_string())?;
    if !metadata.is_dir() {
        return Err("it is not a folder".to_owned());
    }
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        return Err("it belongs to another user".to_owned());
    }
    if metadata.mode() & 0o022 != 0 {
        return Err("others may write there: run `chmod 700` on it".to_owned());
    }
    Ok(())
}

#[cfg(not(unix))]
fn make_own_folder(folder: &Path) -> Result<(), String> {
    std::fs::create_dir_all(folder).map_err(|error| error.to_string())
}
