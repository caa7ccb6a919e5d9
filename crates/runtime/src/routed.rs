//! The owner of a routed stage: takes every message of the stage's queue and sends copies to the
//! queues of the chosen workers.

mod question;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use kernel::worker::{Failure, FailureKind, Incoming, Kind, LogLevel, Ticket, Turn, Worker};
use kernel::{Address, Message, StageAddress};
use serde::{Deserialize, Serialize};

use crate::router::{Router, RouterKind, Workers};
use question::Question;

/// What the names of the timers begin with that ask the next worker.
const TAIL: &str = "tail/";

/// How long the owner of a routed stage waits for its workers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RoutedLimits {
    /// Tail-chopping: after how long without an answer the next worker is asked.
    pub tail_after_ms: u64,
    /// After how long without an answer a question is given up. Whoever asked gets nothing.
    pub ask_timeout_ms: u64,
    /// How many questions may be open. More are passed on to one worker each, which answers itself.
    pub questions_max: u32,
}

impl Default for RoutedLimits {
    fn default() -> Self {
        Self {
            tail_after_ms: 50,
            ask_timeout_ms: 5_000,
            questions_max: 100_000,
        }
    }
}

/// The owner of a routed stage, itself a worker. What it has to remember is in its state.
///
/// Copies keep the address for answers, so whoever gets one may answer to it. Only scatter-gather and
/// tail-chopping ask on their own behalf and pass on the first answer.
pub struct RouterWorker {
    stage: StageAddress,
    kind: RouterKind,
    router: Arc<dyn Router>,
    workers: Arc<dyn Workers + Send + Sync>,
    limits: RoutedLimits,
    chosen: Vec<u32>,
    late_answers: u64,
}

impl RouterWorker {
    /// The owner of this stage, whose workers are these. The router is [`RouterKind::router`] of
    /// the kind, or one's own.
    pub fn new(
        stage: StageAddress,
        kind: RouterKind,
        router: Arc<dyn Router>,
        workers: Arc<dyn Workers + Send + Sync>,
        limits: RoutedLimits,
    ) -> Self {
        Self {
            stage,
            kind,
            router,
            workers,
            limits,
            chosen: Vec::new(),
            late_answers: 0,
        }
    }

    async fn route(&mut self, incoming: &Incoming, turn: &mut Turn) -> Result<(), Failure> {
        self.choose(&incoming.message)?;
        let asker = answerable(incoming, turn);
        let asks = matches!(
            self.kind,
            RouterKind::ScatterGather | RouterKind::TailChopping
        );
        match asker {
            Some(asker) if asks => self.pass_on(asker, &incoming.message, turn).await,
            // Without anybody to answer to, there is no point in asking one after another.
            asker => self.send_copies(&copy_for(asker, &incoming.message)?, turn),
        }
    }

    /// Fills `chosen`, and trusts no router.
    fn choose(&mut self, message: &Message) -> Result<(), Failure> {
        self.chosen.clear();
        self.router
            .select(message, &*self.workers, &mut self.chosen)?;
        let count = self.workers.count();
        if let Some(wrong) = self.chosen.iter().find(|worker| **worker >= count) {
            return Err(Failure::new(format!(
                "the router chose worker {wrong} of {}, which has {count}",
                self.stage
            )));
        }
        if self.chosen.is_empty() {
            let reason = format!("no worker of {} has room for the message", self.stage);
            return Err(Failure::of(FailureKind::Host, reason));
        }
        Ok(())
    }

    fn send_copies(&self, copy: &Message, turn: &mut Turn) -> Result<(), Failure> {
        self.chosen
            .iter()
            .try_for_each(|worker| turn.send(self.stage.worker(*worker), copy.clone()))
    }

    /// Asks the workers, and remembers for whom.
    async fn pass_on(
        &mut self,
        asker: String,
        message: &Message,
        turn: &mut Turn,
    ) -> Result<(), Failure> {
        if question::open_count(turn).await? >= self.limits.questions_max {
            return self.pass_through(asker, message, turn);
        }
        let timeout = Duration::from_millis(self.limits.ask_timeout_ms);
        let mut question = Question::new(asker, message, turn.now() + timeout);
        let ours = |name: &str| name == Message::REPLY_TO || name == Message::CORRELATION_ID;
        let message = question::without(message, ours);
        match self.kind {
            RouterKind::TailChopping => self.ask_first(&mut question, &message, turn).await,
            _ => self.ask_all(&mut question, &message, turn).await,
        }
    }

    /// Lets one worker answer itself, because too many questions are open.
    fn pass_through(
        &self,
        asker: String,
        message: &Message,
        turn: &mut Turn,
    ) -> Result<(), Failure> {
        let line = format!(
            "{} questions are open, so another one goes to a single worker",
            self.limits.questions_max
        );
        turn.log(LogLevel::Warn, &line);
        let copy = copy_for(Some(asker), message)?;
        let any = self.chosen[fastrand::usize(..self.chosen.len())];
        turn.send(self.stage.worker(any), copy)
    }

    async fn ask_all(
        &self,
        question: &mut Question,
        message: &Message,
        turn: &mut Turn,
    ) -> Result<(), Failure> {
        let mut id = None;
        for worker in &self.chosen {
            let ticket = self.ask(*worker, question, message, turn)?;
            let id = *id.get_or_insert(ticket);
            question::write_ticket(ticket, id, turn)?;
        }
        match id {
            Some(id) => question::open(id, question, turn).await,
            None => Ok(()),
        }
    }

    async fn ask_first(
        &self,
        question: &mut Question,
        message: &Message,
        turn: &mut Turn,
    ) -> Result<(), Failure> {
        let Some((first, rest)) = self.chosen.split_first() else {
            return Ok(());
        };
        question.rest = rest.iter().copied().take(self.tails_max()).rev().collect();
        let id = self.ask(*first, question, message, turn)?;
        question::write_ticket(id, id, turn)?;
        if !question.rest.is_empty() {
            question::write_message(id, message, turn)?;
            self.set_tail_timer(id, turn)?;
        }
        question::open(id, question, turn).await
    }

    /// More workers than this cannot be asked before the time is up.
    fn tails_max(&self) -> usize {
        (self.limits.ask_timeout_ms / self.limits.tail_after_ms.max(1)) as usize
    }

    fn ask(
        &self,
        worker: u32,
        question: &mut Question,
        message: &Message,
        turn: &mut Turn,
    ) -> Result<Ticket, Failure> {
        let left = question.ends_at().since(turn.now());
        question.asked += 1;
        turn.ask(self.stage.worker(worker), message.clone(), left)
    }

    fn set_tail_timer(&self, id: Ticket, turn: &mut Turn) -> Result<(), Failure> {
        let after = Duration::from_millis(self.limits.tail_after_ms);
        turn.set_timer(&format!("{TAIL}{id}"), after, Bytes::new())
    }

    /// Nobody has answered for a while: asks the next worker.
    async fn ask_next(&self, id: Ticket, turn: &mut Turn) -> Result<(), Failure> {
        let Some(mut question) = Question::read(id, turn).await? else {
            return Ok(());
        };
        // A worker that is gone is passed over; a question whose time is up will time out.
        let count = self.workers.count();
        question.rest.retain(|worker| *worker < count);
        if turn.now() >= question.ends_at() {
            question.rest.clear();
        }
        if let Some(worker) = question.rest.pop() {
            let message = question::read_message(id, turn).await?;
            let ticket = self.ask(worker, &mut question, &message, turn)?;
            question::write_ticket(ticket, id, turn)?;
        }
        match question.rest.is_empty() {
            true => question::remove_message(id, turn)?,
            false => self.set_tail_timer(id, turn)?,
        }
        question.write(id, turn)
    }

    /// The first answer goes to whoever asked.
    async fn answered(
        &mut self,
        ticket: Ticket,
        answer: &Message,
        turn: &mut Turn,
    ) -> Result<(), Failure> {
        let question = match question::take_ticket(ticket, turn).await? {
            Some(id) => Question::read(id, turn).await?.map(|open| (id, open)),
            None => None,
        };
        let Some((id, question)) = question else {
            self.count_late(turn);
            return Ok(());
        };
        question.answer(answer, turn)?;
        self.close(id, &question, turn).await
    }

    /// Counts, and says so less and less often.
    fn count_late(&mut self, turn: &Turn) {
        self.late_answers += 1;
        if self.late_answers.is_power_of_two() {
            let count = self.late_answers;
            let line = format!("{count} answers so far came after the first and were dropped");
            turn.log(LogLevel::Debug, &line);
        }
    }

    async fn timed_out(&self, ticket: Ticket, turn: &mut Turn) -> Result<(), Failure> {
        let Some(id) = question::take_ticket(ticket, turn).await? else {
            return Ok(());
        };
        let Some(mut question) = Question::read(id, turn).await? else {
            return Ok(());
        };
        question.asked = question.asked.saturating_sub(1);
        if question.asked > 0 {
            return question.write(id, turn);
        }
        let line = format!(
            "no worker of {} answered within {} ms, so whoever asked gets no answer",
            self.stage, self.limits.ask_timeout_ms
        );
        turn.log(LogLevel::Warn, &line);
        self.close(id, &question, turn).await
    }

    async fn close(&self, id: Ticket, question: &Question, turn: &mut Turn) -> Result<(), Failure> {
        if !question.rest.is_empty() {
            turn.cancel_timer(&format!("{TAIL}{id}"))?;
            question::remove_message(id, turn)?;
        }
        question::close(id, turn).await
    }
}

#[async_trait]
impl Worker for RouterWorker {
    async fn receive(&mut self, incoming: &Incoming, turn: &mut Turn) -> Result<(), Failure> {
        match &incoming.kind {
            Kind::Message => self.route(incoming, turn).await,
            Kind::Reply(ticket) => self.answered(*ticket, &incoming.message, turn).await,
            Kind::TimedOut(ticket) => self.timed_out(*ticket, turn).await,
            Kind::Timer(name) => match name.strip_prefix(TAIL).map(str::parse) {
                Some(Ok(id)) => self.ask_next(id, turn).await,
                _ => Ok(()),
            },
            // It starts no children, and all that it has pending is in its state.
            Kind::ChildEnded(_) | Kind::Woken => Ok(()),
        }
    }
}

/// The address for the answer, if there is one and it can be used.
fn answerable(incoming: &Incoming, turn: &Turn) -> Option<String> {
    let asker = incoming.reply_address()?;
    match asker.parse::<Address>() {
        Ok(_) => Some(asker),
        Err(error) => {
            let line = format!("a message cannot be answered: {error}");
            turn.log(LogLevel::Warn, &line);
            None
        }
    }
}

/// The message with this address for answers, or with none.
fn copy_for(asker: Option<String>, message: &Message) -> Result<Message, Failure> {
    let Some(asker) = asker else {
        return Ok(question::without(message, |name| name == Message::REPLY_TO));
    };
    let mut copy = message.clone();
    if message.headers.get(Message::REPLY_TO) != Some(&asker) {
        copy.headers = copy.headers.with([(Message::REPLY_TO, asker.as_str())])?;
    }
    Ok(copy)
}

#[cfg(test)]
#[path = "routed_tests.rs"]
mod tests;
