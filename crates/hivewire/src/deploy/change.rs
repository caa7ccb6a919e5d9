//! Deploying, by request or because a source changed.

use std::sync::{Arc, Weak};

use async_trait::async_trait;
use kernel::StageAddress;
use runtime::{HistoryEvent, RouterKind, StageKind, StageSpec, StageState};

use super::expected::Expected;
use super::plugins::check_args;
use super::sharing::{Places, Restarts, Sharing};
use super::slot::{Numbers, Part, Slot};
use super::source::{self, Component, Source};
use super::store::{Origin, Previous, Record, Refused};
use super::watch::{self, OnChange, Seen};
use super::{
    ControlError, DeployError, DeployRequest, DeployedStage, Deployments, Given, Replica,
    RouterRequest,
};

/// A component and where it came from.
pub(super) type Obtained = (Component, Source);

/// All that a stage is to run.
#[derive(Clone)]
pub(super) struct Plan {
    pub spec: StageSpec,
    pub component: Obtained,
    pub router: Option<Obtained>,
    pub watch: bool,
    pub places: Places,
    /// Where it runs, if that is one replica among others.
    pub replica: Option<Replica>,
}

impl Deployments {
    /// Keeps a component for deployments to come, and gives its digest.
    pub async fn upload(&self, bytes: bytes::Bytes) -> Result<String, DeployError> {
        let component = Component::new(bytes);
        let digest = component.digest.clone();
        self.store.save_component(component).await?;
        Ok(digest)
    }

    /// Deploys, or replaces what runs. It goes on to its end though the caller may lose interest.
    pub async fn deploy(&self, request: DeployRequest) -> Result<DeployedStage, DeployError> {
        let this = self.this();
        tokio::spawn(async move { this.deploy_in_order(request).await }).await?
    }

    /// Whoever calls a method has us, so we are there.
    pub(super) fn this(&self) -> Arc<Self> {
        self.me.upgrade().expect("a method runs on something")
    }

    async fn deploy_in_order(&self, request: DeployRequest) -> Result<DeployedStage, DeployError> {
        let stage = request.stage.clone();
        let slot = self.slot(&stage);
        let _order = slot.order.lock().await;
        let deployed = match self.plan(&slot, &request).await {
            Ok(plan) => self.put_in_place(&slot, plan, &request.expected).await,
            // Nothing was tried.
            Err(error @ DeployError::NotExpected { .. }) => Err(error),
            Err(error) => {
                self.refused(&stage, String::new(), &error).await;
                Err(error)
            }
        };
        if deployed.is_ok() {
            self.start_watching(&stage, &slot);
        }
        self.forget_if_empty(&stage);
        deployed
    }

    /// A first deployment that was refused leaves nothing behind but its history.
    pub(super) fn forget_if_empty(&self, stage: &StageAddress) {
        let mut slots = self.slots.lock();
        let is_empty = |slot: &Arc<Slot>| slot.state.lock().record.is_none();
        // Somebody else may wait for his turn with it.
        let is_ours = |slot: &Arc<Slot>| Arc::strong_count(slot) <= 2;
        if slots
            .get(stage)
            .is_some_and(|slot| is_empty(slot) && is_ours(slot))
        {
            slots.remove(stage);
        }
    }

    pub(super) async fn plan(
        &self,
        slot: &Slot,
        request: &DeployRequest,
    ) -> Result<Plan, DeployError> {
        let was = match &self.sharing {
            Some(sharing) => sharing.definition(&request.stage).await?.1,
            None if request.names_places() => {
                return Err(DeployError::Request(ControlError::Alone.to_string()));
            }
            None => slot.state.lock().record.clone(),
        };
        request.expected.check(&request.stage, was.as_ref())?;
        let places = was.as_ref().map(|was| was.places.clone());
        let places = request.places(places.unwrap_or_default())?;
        let usual = || {
            let mut spec = StageSpec::new(request.stage.clone());
            spec.instance_limits = self.instance_limits.clone();
            spec
        };
        let spec = was.as_ref().map_or_else(usual, |was| was.spec.clone());
        let spec = request.spec(spec)?;
        let own_router = spec.kind == StageKind::Routed(RouterKind::Own);
        let router = match &request.router {
            Some(RouterRequest::Own(given)) => Some(self.obtain(given).await?),
            _ => match was.and_then(|was| was.router).filter(|_| own_router) {
                Some(origin) => Some(self.obtain_again(&origin).await?),
                None => None,
            },
        };
        Ok(Plan {
            spec,
            component: self.obtain(&request.source).await?,
            router,
            watch: request.watch.unwrap_or(true),
            places,
            replica: request.replica.clone(),
        })
    }

    pub(super) async fn obtain(&self, given: &Given) -> Result<Obtained, DeployError> {
        match given {
            Given::Digest(digest) => Ok((self.store.load_component(digest).await?, Source::Upload)),
            Given::Source(source) => {
                if let Source::Plugin(reference) = source {
                    return self.obtain_plugin(reference).await;
                }
                let (fetcher, from) = (self.fetcher.clone(), source.clone());
                let component = watch::blocking(move || source::read(&from, &fetcher)).await?;
                Ok((component, source.clone()))
            }
        }
    }

    /// A component that was deployed before, from where it was kept.
    pub(super) async fn obtain_again(&self, origin: &Origin) -> Result<Obtained, DeployError> {
        let mut component = self.store.load_component(&origin.digest).await?;
        component.etag.clone_from(&origin.etag);
        Ok((component, origin.source.clone()))
    }

    /// Checks, keeps and runs it, and remembers that for the next start.
    pub(super) async fn put_in_place(
        &self,
        slot: &Slot,
        mut plan: Plan,
        expected: &Expected,
    ) -> Result<DeployedStage, DeployError> {
        if let Err(error) = check_args(&mut plan).await {
            let digest = plan.component.0.digest.clone();
            self.refused(&plan.spec.address, digest, &error).await;
            return Err(error);
        }
        if let Some(sharing) = &self.sharing {
            return self.define(sharing, slot, plan, expected).await;
        }
        let stage = plan.spec.address.clone();
        let digest = plan.component.0.digest.clone();
        if let Some(version) = self.runs_already(slot, &plan) {
            return Ok(DeployedStage {
                version,
                replaced: true,
                changed: false,
                digest,
            });
        }
        // Before the runtime has its first version, so that this one is not counted twice.
        let numbers = self.numbers(&stage);
        let deployed = match self.run(&plan).await {
            Ok(deployed) => deployed,
            Err(error) => {
                self.refused(&stage, digest, &error).await;
                return Err(error);
            }
        };
        let version = numbers.shown(deployed.version);
        let record = {
            let mut state = slot.state.lock();
            let record = plan.record(version, state.record.take());
            state.failure = None;
            state.record = Some(record.clone());
            record
        };
        self.store.put(&record).await?;
        if slot.state.lock().rolled_back == Some(version) {
            self.go_back(&stage, slot, version).await;
        }
        self.look_at_history().await;
        Ok(DeployedStage {
            version,
            replaced: deployed.replaced,
            changed: true,
            digest,
        })
    }

    /// Whether a stage runs. One that gave up does not: a deployment begins it anew.
    pub(super) fn is_sound(&self, stage: &StageAddress) -> bool {
        let state = self.runtime.state(stage);
        state.is_some_and(|state| state != StageState::Failed)
    }

    /// The version that runs here, if it is just what is planned.
    fn runs_already(&self, slot: &Slot, plan: &Plan) -> Option<u32> {
        let planned = plan.clone().record(0, None);
        if !self.is_sound(&planned.spec.address) {
            return None;
        }
        let state = slot.state.lock();
        let record = state.record.as_ref().filter(|_| state.failure.is_none())?;
        record.says_the_same(&planned).then_some(record.version)
    }

    async fn run(&self, plan: &Plan) -> Result<runtime::Deployed, DeployError> {
        let code = self.loader.worker(&plan.component.0).await?;
        self.store.save_component(plan.component.0.clone()).await?;
        let deployed = match &plan.router {
            None => self.runtime.deploy(plan.spec.clone(), code).await,
            Some((component, _)) => {
                let router = self.loader.router(component).await?;
                self.store.save_component(component.clone()).await?;
                let spec = plan.spec.clone();
                self.runtime.deploy_routed(spec, code, router).await
            }
        };
        deployed.map_err(DeployError::Stage)
    }

    /// Runs again what was deployed before, with the version number that it had.
    pub(super) async fn load_again(&self, slot: &Slot, record: Record) -> Result<(), DeployError> {
        let (component, router) = (record.component.clone(), record.router.clone());
        let (spec, watch, version) = (record.spec.clone(), record.watch, record.version);
        let paused = record.paused;
        slot.state.lock().record = Some(record);
        let plan = Plan {
            spec,
            component: self.obtain_again(&component).await?,
            router: match &router {
                Some(origin) => Some(self.obtain_again(origin).await?),
                None => None,
            },
            watch,
            places: Places::default(),
            replica: None,
        };
        let stage = plan.spec.address.clone();
        let last = self.histories.lock().last_version(&stage);
        let numbers = Numbers::restored(version, last);
        let numbers = *self.numbers.lock().entry(stage.clone()).or_insert(numbers);
        self.runtime.pause_stage(&stage, paused).await;
        let deployed = self.run(&plan).await?;
        let mut state = slot.state.lock();
        state.failure = None;
        if let Some(record) = &mut state.record {
            record.version = numbers.shown(deployed.version);
        }
        Ok(())
    }

    /// Notes that a version did not fit. What the runtime refuses it notes itself.
    pub(super) async fn refused(&self, stage: &StageAddress, digest: String, error: &DeployError) {
        tracing::warn!(%stage, digest, %error, "a version was refused");
        match error {
            DeployError::Stage(_) => self.look_at_history().await,
            _ => {
                let detail = error.to_string();
                self.note(stage, HistoryEvent::Refused, 0, digest, detail)
                    .await;
            }
        }
    }

    /// The runtime went back to the version before.
    pub(super) async fn go_back(&self, stage: &StageAddress, slot: &Slot, version: u32) {
        let record = {
            let mut state = slot.state.lock();
            state.rolled_back = Some(version);
            let Some(record) = state.record.as_mut() else {
                return;
            };
            if record.version != version {
                return;
            }
            let Some(previous) = record.previous.take() else {
                return;
            };
            let failed = std::mem::replace(&mut record.component, previous.component);
            if failed.digest != record.component.digest {
                record.refused.component = Some(failed.digest);
            }
            let router = std::mem::replace(&mut record.router, previous.router);
            if let Some(failed) = router
                && record
                    .router
                    .as_ref()
                    .is_none_or(|own| own.digest != failed.digest)
            {
                record.refused.router = Some(failed.digest);
            }
            record.spec = previous.spec;
            record.version = previous.version;
            record.clone()
        };
        if let Err(error) = self.keep_record(version, &record).await {
            tracing::error!(%stage, %error, "the next start of the node will try a version that failed");
        }
    }

    /// Watches the sources of a stage from now on, in place of what was watched before.
    pub(super) fn start_watching(&self, stage: &StageAddress, slot: &Slot) {
        let mut state = slot.state.lock();
        let generation = state.watches.renew();
        state.troubles = Default::default();
        let is_watched_here = |record: &Record| {
            let is_here =
                |sharing: &Sharing| record.watcher.as_deref() == Some(sharing.node.as_str());
            record.watch && self.sharing.as_ref().is_none_or(is_here)
        };
        let Some(record) = state.record.clone().filter(is_watched_here) else {
            return;
        };
        let Refused { component, router } = record.refused;
        let parts = [
            (Part::Component, Some(record.component), component),
            (Part::Router, record.router, router),
        ];
        for (part, origin, refused) in parts {
            let Some(origin) = origin else {
                continue;
            };
            let seen = Seen {
                digest: refused.unwrap_or(origin.digest),
                etag: origin.etag,
            };
            let on_change = StageWatch {
                deployments: self.me.clone(),
                stage: stage.clone(),
                part,
                generation,
            };
            let following = watch::follow(
                origin.source,
                seen,
                self.fetcher.clone(),
                self.notices.clone(),
                Arc::new(on_change),
            );
            state.watches.tasks.push(tokio::spawn(following));
        }
    }

    /// A source has changed.
    async fn source_changed(&self, watch: &StageWatch, component: Component) {
        let Some(slot) = self.find_slot(&watch.stage) else {
            return;
        };
        let _order = slot.order.lock().await;
        let record = {
            let state = slot.state.lock();
            match &state.record {
                // Somebody deployed something else, or stopped the stage, in the meantime.
                Some(record) if state.watches.generation == watch.generation => record.clone(),
                _ => return,
            }
        };
        let digest = component.digest.clone();
        if let Err(error) = self
            .replace_part(&slot, &record, watch.part, component)
            .await
        {
            self.remember_refused(&slot, watch.part, digest, &error)
                .await;
        }
    }

    async fn replace_part(
        &self,
        slot: &Slot,
        record: &Record,
        part: Part,
        changed: Component,
    ) -> Result<(), DeployError> {
        let current = match part {
            Part::Component => Some(&record.component),
            Part::Router => record.router.as_ref(),
        };
        let Some(current) = current else {
            return Ok(());
        };
        // Somebody put the version back that runs.
        if current.digest == changed.digest && slot.state.lock().failure.is_none() {
            return Ok(());
        }
        let changed = (changed, current.source.clone());
        let (component, router) = match (part, &record.router) {
            (Part::Component, None) => (changed, None),
            (Part::Component, Some(router)) => (changed, Some(self.obtain_again(router).await?)),
            (Part::Router, _) => (self.obtain_again(&record.component).await?, Some(changed)),
        };
        let plan = Plan {
            spec: record.spec.clone(),
            component,
            router,
            watch: record.watch,
            places: record.places.clone(),
            replica: None,
        };
        let deployed = self.put_in_place(slot, plan, &Expected::Anything).await?;
        let (stage, version) = (&record.spec.address, deployed.version);
        tracing::info!(%stage, version, "the source of a stage changed, and so did the stage");
        Ok(())
    }

    /// The same code with another number of workers.
    pub(super) async fn put_scaled(
        &self,
        slot: &Slot,
        record: &Record,
        workers: u32,
    ) -> Result<u32, DeployError> {
        let mut spec = record.spec.clone();
        spec.workers = workers;
        let plan = Plan {
            spec,
            component: self.obtain_again(&record.component).await?,
            router: match &record.router {
                Some(router) => Some(self.obtain_again(router).await?),
                None => None,
            },
            watch: record.watch,
            places: Places::default(),
            replica: None,
        };
        let deployed = self.put_in_place(slot, plan, &Expected::Anything).await?;
        self.start_watching(&record.spec.address, slot);
        Ok(deployed.version)
    }

    /// So that the next start of the node does not try it again.
    async fn remember_refused(&self, slot: &Slot, part: Part, digest: String, error: &DeployError) {
        let record = {
            let mut state = slot.state.lock();
            let Some(record) = state.record.as_mut() else {
                return;
            };
            match part {
                Part::Component => record.refused.component = Some(digest),
                Part::Router => record.refused.router = Some(digest),
            }
            record.clone()
        };
        if let Err(store) = self.keep_record(record.version, &record).await {
            tracing::warn!(%error, %store, "that a version was refused could not be stored");
        }
    }
}

impl Plan {
    pub(super) fn record(self, version: u32, was: Option<Record>) -> Record {
        let origin = |(component, source): Obtained| Origin {
            source,
            digest: component.digest,
            etag: component.etag,
        };
        Record {
            paused: was.as_ref().is_some_and(|was| was.paused),
            spec: self.spec,
            component: origin(self.component),
            router: self.router.map(origin),
            watch: self.watch,
            version,
            previous: was.map(|was| {
                Box::new(Previous {
                    spec: was.spec,
                    component: was.component,
                    router: was.router,
                    version: was.version,
                })
            }),
            refused: Refused::default(),
            places: self.places,
            watcher: None,
            restarts: Restarts::default(),
        }
    }
}

/// Deploys what a watched source became.
struct StageWatch {
    deployments: Weak<Deployments>,
    stage: StageAddress,
    part: Part,
    generation: u64,
}

#[async_trait]
impl OnChange for StageWatch {
    async fn changed(&self, component: Component) {
        let Some(deployments) = self.deployments.upgrade() else {
            return;
        };
        let watch = Self {
            deployments: self.deployments.clone(),
            stage: self.stage.clone(),
            ..*self
        };
        // On its own: the end of the watch must not break a deployment off.
        let changing =
            tokio::spawn(async move { deployments.source_changed(&watch, component).await });
        if let Err(error) = changing.await {
            tracing::error!(stage = %self.stage, %error, "a deployment broke off");
        }
    }

    async fn trouble(&self, reason: Option<String>) {
        match &reason {
            Some(reason) => tracing::warn!(stage = %self.stage, reason, "a source cannot be read"),
            None => tracing::info!(stage = %self.stage, "a source can be read again"),
        }
        let slot = self
            .deployments
            .upgrade()
            .and_then(|d| d.find_slot(&self.stage));
        let Some(slot) = slot else {
            return;
        };
        let mut state = slot.state.lock();
        if state.watches.generation == self.generation {
            match self.part {
                Part::Component => state.troubles.component = reason,
                Part::Router => state.troubles.router = reason,
            }
        }
    }
}
