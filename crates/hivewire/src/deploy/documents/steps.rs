//! The steps of a plan, prepared before anything is touched, done, and undone if one fails.

use flows::document::{Document, Stage, Step};
use kernel::StageAddress;

use super::error::{ApplyError, StepError};
use super::lookup::given;
use crate::deploy::change::Plan;
use crate::deploy::expected::Expected;
use crate::deploy::plugins::check_args;
use crate::deploy::store::Record;
use crate::deploy::{DeployError, DeployRequest, Deployments, RouterRequest};
use crate::events::{Event, kind};

/// A step and what it needs.
pub(super) struct Prepared {
    pub step: Step,
    /// Of a step that ends stages, these; of one that makes a stage, it.
    stages: Vec<StageAddress>,
    /// What the stage is to run, if it does not end.
    plan: Option<Plan>,
}

/// What was there before a step.
pub(super) struct Before {
    stage: StageAddress,
    record: Option<Record>,
}

impl Deployments {
    /// Fetches, compiles and checks all that the steps need. Nothing that runs is touched.
    pub(super) async fn prepare(
        &self,
        steps: Vec<Step>,
        new: &Document,
    ) -> Result<Vec<Prepared>, ApplyError> {
        let mut prepared = Vec::new();
        for step in steps {
            prepared.push(self.prepare_step(step, new).await?);
        }
        Ok(prepared)
    }

    async fn prepare_step(&self, step: Step, new: &Document) -> Result<Prepared, ApplyError> {
        let names = match &step {
            Step::Add { stage, .. } | Step::Change { stage, .. } | Step::Rebuild { stage, .. } => {
                vec![stage.clone()]
            }
            Step::Remove { stages } => stages.clone(),
            // Whoever serves routes reads them in the document.
            Step::Serve { .. } => Vec::new(),
        };
        let unfit = |stage: &str| {
            let stage = stage.to_owned();
            |error| ApplyError::Unfit {
                stage,
                error: Box::new(error),
            }
        };
        let mut stages = Vec::new();
        for name in &names {
            let address = StageAddress::new(&new.flow, name);
            let address = address.map_err(|error| DeployError::Request(error.to_string()));
            stages.push(address.map_err(unfit(name))?);
        }
        if let (Step::Rebuild { stage, reason }, true) = (&step, self.sharing.is_some()) {
            let refusal = format!(
                "several nodes share it, so it cannot begin anew while it runs ({reason}): give it another name, or stop it first"
            );
            return Err(unfit(stage)(DeployError::Request(refusal)));
        }
        let plan = match (&step, names.first().and_then(|name| new.stages.get(name))) {
            (Step::Remove { .. }, _) | (_, None) => None,
            (_, Some(stage)) => {
                let planning = self.plan_stage(new, stage, &stages[0]);
                Some(planning.await.map_err(unfit(&names[0]))?)
            }
        };
        Ok(Prepared { step, stages, plan })
    }

    /// All that a stage is to run, checked as far as that goes without running it.
    async fn plan_stage(
        &self,
        document: &Document,
        stage: &Stage,
        address: &StageAddress,
    ) -> Result<Plan, DeployError> {
        let request = self.request_for(document, stage, address)?;
        let slot = self.slot(address);
        let planned = self.plan(&slot, &request).await;
        drop(slot);
        self.forget_if_empty(address);
        let mut plan = planned?;
        check_args(&mut plan).await?;
        self.loader.worker(&plan.component.0).await?;
        if let Some((router, _)) = &plan.router {
            self.loader.router(router).await?;
        }
        Ok(plan)
    }

    fn request_for(
        &self,
        document: &Document,
        stage: &Stage,
        address: &StageAddress,
    ) -> Result<DeployRequest, DeployError> {
        let name = address.stage().as_str();
        let spec = document.spec(name, stage, &self.instance_limits);
        let mut spec = spec.map_err(|error| DeployError::Request(error.to_string()))?;
        // A stage that finds its size by itself keeps the one that it has found.
        if let Some(rule) = &spec.scale
            && let Some(running) = self.runtime.stage(address)
        {
            spec.workers = running
                .workers_count
                .clamp(rule.min, rule.max.max(rule.min));
        }
        let mut request = DeployRequest::new(address.clone(), given(&stage.plugin)?);
        if let Some(flows::document::RouterChoice::Own(own)) = &stage.router {
            request.router = Some(RouterRequest::Own(given(own)?));
        }
        request.whole = Some(Box::new(spec));
        match (stage.on.is_empty(), self.sharing.is_some()) {
            (false, _) => request.on = Some(stage.on.clone()),
            (true, true) => request.spread = true,
            (true, false) => {}
        }
        Ok(request)
    }

    /// Does the steps. If one fails, those before it are undone, and what was to come is not done.
    pub(super) async fn do_steps(
        &self,
        flow: &str,
        prepared: Vec<Prepared>,
    ) -> Result<(), ApplyError> {
        let mut done = Vec::new();
        let count = prepared.len();
        for (number, prepared) in prepared.into_iter().enumerate() {
            let sentence = prepared.step.to_string();
            self.tell_step(flow, "step", number, count, &sentence);
            if let Err(error) = self.do_step(prepared, &mut done).await {
                self.tell_step(flow, "failed", number, count, &sentence);
                let undone = self.undo(done).await;
                return Err(ApplyError::Step {
                    step: sentence,
                    reason: error.to_string(),
                    undone,
                });
            }
        }
        Ok(())
    }

    fn tell_step(&self, flow: &str, event: &str, number: usize, count: usize, sentence: &str) {
        let event = Event::new(kind::FLOW, event).with("flow", flow);
        let event = event.with("step", number + 1).with("steps", count);
        self.tell(event.with("detail", sentence));
    }

    async fn do_step(&self, prepared: Prepared, done: &mut Vec<Before>) -> Result<(), StepError> {
        match prepared.plan {
            None if prepared.stages.is_empty() => {}
            Some(plan) => {
                let spec = plan.spec.clone();
                done.push(self.put(plan).await?);
                if let Step::Rebuild { .. } = prepared.step {
                    self.bring_leftovers(&spec).await?;
                }
            }
            None => {
                self.drained(&prepared.stages).await?;
                for stage in prepared.stages {
                    let record = self.record_of(&stage).await?;
                    self.stop_stage(&stage).await?;
                    done.push(Before { stage, record });
                }
            }
        }
        Ok(())
    }

    async fn record_of(&self, stage: &StageAddress) -> Result<Option<Record>, StepError> {
        match &self.sharing {
            Some(sharing) => Ok(sharing.definition(stage).await?.1),
            None => Ok(self
                .find_slot(stage)
                .and_then(|slot| slot.state.lock().record.clone())),
        }
    }

    async fn put(&self, plan: Plan) -> Result<Before, StepError> {
        let stage = plan.spec.address.clone();
        let record = self.record_of(&stage).await?;
        self.put_planned(plan).await?;
        Ok(Before { stage, record })
    }

    /// Runs what was planned, in its turn.
    async fn put_planned(&self, plan: Plan) -> Result<(), DeployError> {
        let stage = plan.spec.address.clone();
        let slot = self.slot(&stage);
        let order = slot.order.lock().await;
        let deployed = self.put_in_place(&slot, plan, &Expected::Anything).await;
        if deployed.is_ok() {
            self.start_watching(&stage, &slot);
        }
        drop(order);
        drop(slot);
        self.forget_if_empty(&stage);
        deployed.map(|_| ())
    }

    /// Brings back what was there, the last first. Says what came of it.
    async fn undo(&self, done: Vec<Before>) -> String {
        if done.is_empty() {
            return "nothing was touched".to_owned();
        }
        let mut failures = Vec::new();
        for before in done.into_iter().rev() {
            let stage = before.stage.clone();
            if let Err(error) = self.bring_back(before).await {
                tracing::error!(%stage, %error, "a step of a flow could not be undone");
                failures.push(format!("{stage} could not be brought back ({error})"));
            }
        }
        match failures.is_empty() {
            true => "the steps before were undone".to_owned(),
            false => failures.join("; "),
        }
    }

    async fn bring_back(&self, before: Before) -> Result<(), StepError> {
        let Some(record) = before.record else {
            return Ok(self.stop_stage(&before.stage).await?);
        };
        let router = match &record.router {
            Some(router) => Some(self.obtain_again(router).await?),
            None => None,
        };
        let plan = Plan {
            component: self.obtain_again(&record.component).await?,
            router,
            spec: record.spec,
            watch: record.watch,
            places: record.places,
            replica: None,
        };
        self.put_planned(plan).await?;
        if record.paused {
            self.pause(&before.stage, true).await?;
        }
        Ok(())
    }
}
