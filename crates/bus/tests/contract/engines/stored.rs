//! An engine that only delivers with a shared store in PostgreSQL: together they give the whole
//! contract.

use std::sync::Arc;

use anyhow::{Context, Result};
use async_trait::async_trait;
use bus::store::{PostgresSettings, PostgresStore};
use bus::{Bus, Given, StoredBus};
use hivewire_bench::peers::postgres::Postgres;
use hivewire_tests::proxy::Proxy;
use parking_lot::Mutex;

use crate::suite::Fixture;

/// A PostgreSQL server that can crash.
pub type StoreServer = Arc<Mutex<Postgres>>;

/// Starts a PostgreSQL server.
pub fn start_store() -> Result<StoreServer> {
    let postgres = Postgres::start().context("cannot start PostgreSQL")?;
    Ok(Arc::new(Mutex::new(postgres)))
}

pub struct StoredFixture {
    label: &'static str,
    engine: Arc<dyn Fixture>,
    postgres: StoreServer,
    postgres_uri: String,
}

impl StoredFixture {
    /// Over servers that run already.
    pub fn new(label: &'static str, engine: Arc<dyn Fixture>, postgres: StoreServer) -> Self {
        let postgres_uri = postgres.lock().uri();
        Self {
            label,
            engine,
            postgres,
            postgres_uri,
        }
    }
}

#[async_trait]
impl Fixture for StoredFixture {
    fn label(&self) -> &'static str {
        self.label
    }

    async fn connect(&self) -> Result<Arc<dyn Bus>> {
        let engine = self.engine.connect().await?;
        let store = PostgresStore::start(&PostgresSettings::new(&self.postgres_uri))?;
        Ok(Arc::new(StoredBus::new(engine, Arc::new(store))))
    }

    /// Both servers crash, one after the other.
    async fn restart(&self) -> Result<()> {
        let postgres = self.postgres.clone();
        let restart = move || {
            let mut postgres = postgres.lock();
            postgres.kill();
            postgres.restart()
        };
        tokio::task::spawn_blocking(restart).await??;
        self.engine.restart().await
    }

    fn network(&self) -> Option<&Proxy> {
        None
    }

    fn can_crash_at_a_point(&self) -> Given {
        Given::No("tests/stored crashes between its steps")
    }
}
