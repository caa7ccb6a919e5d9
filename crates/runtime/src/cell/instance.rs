//! Making, saving and loading instances.

use std::sync::Arc;
use std::time::Duration;

use bus::StateWrite;
use bytes::Bytes;
use kernel::worker::{Failure, Start, Worker};

use super::Place;
use super::host;
use super::run::Run;
use crate::scope::keys;
use crate::stage::Version;
use crate::store::host_failure;

impl Run {
    /// Gives the worker an instance with what was last saved.
    pub async fn start_instance(&mut self) -> Result<(), Failure> {
        let version = self.version().clone();
        let snapshot = self.saved().await?;
        self.body.instance = Some(self.make_instance(&version, snapshot).await?);
        self.begin_providing();
        Ok(())
    }

    /// An instance of that version, ready for messages.
    pub async fn make_instance(
        &mut self,
        version: &Arc<Version>,
        snapshot: Bytes,
    ) -> Result<Box<dyn Worker>, Failure> {
        let start = Start {
            address: self.cell.address(),
            limits: version.spec.instance_limits.clone(),
        };
        let code = match &self.cell.place {
            Place::Owner => version
                .owner
                .clone()
                .unwrap_or_else(|| version.code.clone()),
            _ => version.code.clone(),
        };
        let mut instance = host::guarded(|| code.instantiate(&start))?;
        let scope = self.own_scope();
        let host = host::CellHost::new(self.cell.clone(), version.clone(), scope.clone());
        let mut turn = kernel::worker::Turn::new(Arc::new(host), version.spec.turn_limits.clone());
        let args = match &self.cell.place {
            Place::Child(child) => child.args.clone(),
            _ => Bytes::copy_from_slice(version.spec.args.as_bytes()),
        };
        let limit = Duration::from_millis(start.limits.call_ms_max);
        host::call(limit, instance.init(&args, &mut turn)).await?;
        if !snapshot.is_empty() {
            host::call(limit, instance.load(snapshot)).await?;
        }
        self.commit_effects(&scope, turn.take_effects()).await?;
        // What it began before it does not know any more.
        self.cell.stage.wake_timed(&self.cell);
        Ok(instance)
    }

    /// What the worker last saved; empty if it never did.
    pub async fn saved(&mut self) -> Result<Bytes, Failure> {
        if self.cell.stage.is_keyed() {
            // Its state is that of its buckets and nothing else.
            return Ok(Bytes::new());
        }
        let store = &self.cell.stage.store;
        let saved = store.get(&self.own_scope(), keys::SNAPSHOT).await;
        Ok(saved.map_err(host_failure)?.unwrap_or_default())
    }

    /// What the present instance would hand over.
    pub async fn snapshot(&mut self) -> Result<Bytes, Failure> {
        let limit = self.call_limit();
        match &mut self.body.instance {
            Some(_) if self.cell.stage.is_keyed() => Ok(Bytes::new()),
            Some(instance) => host::call(limit, instance.save()).await,
            None => self.saved().await,
        }
    }

    /// Commits what the present instance keeps in its memory, so that it can go.
    pub async fn save(&mut self) -> Result<(), Failure> {
        if self.body.instance.is_none() || self.cell.stage.is_keyed() {
            return Ok(());
        }
        let snapshot = self.snapshot().await?;
        let before = self.saved().await?;
        if snapshot == before {
            return Ok(());
        }
        let key = Bytes::from_static(keys::SNAPSHOT);
        let write = match snapshot.is_empty() {
            true => StateWrite::Remove { key },
            false => StateWrite::Set {
                key,
                value: snapshot,
            },
        };
        self.write(vec![write]).await
    }
}
