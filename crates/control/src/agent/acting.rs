//! Taking and letting go, as the state machines say.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use kernel::StageAddress;
use runtime::Part;
use tokio::sync::mpsc;

use super::{Happened, Shared, State};
use crate::ownership::{Action, Event};

/// How many stages are looked at while nobody else can.
const LOOKS_AT_ONCE: usize = 256;

impl Shared {
    /// Looks at every stage again.
    pub(super) fn look(&self) {
        // Once is enough for all who ask before it begins.
        if !self.looks.swap(true, Ordering::SeqCst) {
            let _ = self.events.send(Happened::All);
        }
    }

    pub(super) fn happened(&self, stage: &StageAddress, event: Event) {
        // The receiver lives as long as the agent.
        let _ = self.events.send(Happened::To(stage.clone(), event));
    }

    /// Does what is to be done after each event.
    pub(super) async fn act(self: Arc<Self>, mut happened: mpsc::UnboundedReceiver<Happened>) {
        while let Some(happened) = happened.recv().await {
            match happened {
                Happened::To(address, event) => self.step([(address, event)]).await,
                Happened::All => {
                    self.looks.store(false, Ordering::SeqCst);
                    let addresses: Vec<StageAddress> = {
                        let mut state = self.state.lock();
                        state.members.forget(self.clock.now());
                        state.stages.keys().cloned().collect()
                    };
                    for some in addresses.chunks(LOOKS_AT_ONCE) {
                        let some = some.iter();
                        self.step(some.map(|address| (address.clone(), Event::Look)))
                            .await;
                        // Others have something to do, too.
                        tokio::task::yield_now().await;
                    }
                }
            }
        }
    }

    /// Does what is to be done after these events, which are about different stages.
    pub(super) async fn step(
        self: &Arc<Self>,
        events: impl IntoIterator<Item = (StageAddress, Event)>,
    ) {
        let mut over = Vec::new();
        let mut todo = Vec::new();
        {
            let mut state = self.state.lock();
            let now = self.clock.now();
            let State {
                members, stages, ..
            } = &mut *state;
            members.prepare(now);
            for (address, event) in events {
                let Some(stage) = stages.get_mut(&address) else {
                    continue;
                };
                let actions = stage.ownership.step(event, members, now);
                if stage.is_gone && stage.ownership.is_free() {
                    over.push(address.clone());
                }
                if !actions.is_empty() {
                    todo.push((address, actions, stage.parts.clone()));
                }
            }
            for address in &over {
                state.forget(address);
            }
        }
        for address in over {
            self.deployer.remove(&address).await;
        }
        for (address, actions, parts) in todo {
            for action in actions {
                self.start_action(&address, action, &parts);
            }
        }
    }

    pub(super) fn start_action(
        self: &Arc<Self>,
        address: &StageAddress,
        action: Action,
        parts: &[Part],
    ) {
        let (share, takes) = match action {
            Action::Announce => return self.announce.notify_one(),
            Action::Take(share) => (share, true),
            Action::Release(share) => (share, false),
        };
        let Some(part) = parts.get(share as usize).copied() else {
            let event = match takes {
                true => Event::NotTaken { share },
                false => Event::Released { share },
            };
            return self.happened(address, event);
        };
        let (shared, address) = (self.clone(), address.clone());
        tokio::spawn(async move {
            let event = match takes {
                true => shared.take(&address, share, part).await,
                false => shared.release(&address, share, part).await,
            };
            shared.happened(&address, event);
        });
    }

    pub(super) async fn take(&self, address: &StageAddress, share: u32, part: Part) -> Event {
        match self.runtime.take(address, part).await {
            Ok(epoch) => Event::Taken { share, epoch },
            Err(error) => {
                tracing::warn!(stage = %address, ?part, %error, "a part could not be taken; trying again");
                Event::NotTaken { share }
            }
        }
    }

    pub(super) async fn release(&self, address: &StageAddress, share: u32, part: Part) -> Event {
        // Either way nothing of it is under way here any more.
        if let Err(error) = self.runtime.release(address, part).await {
            tracing::warn!(stage = %address, ?part, %error, "a part was left before it was done; it goes on elsewhere");
        }
        Event::Released { share }
    }

    /// Learns what other nodes have taken from this one.
    pub(super) async fn notice_losses(self: Arc<Self>) {
        loop {
            let (address, part) = self.runtime.next_lost().await;
            let share = {
                let state = self.state.lock();
                let parts = state.stages.get(&address).map(|stage| &stage.parts);
                parts.and_then(|parts| parts.iter().position(|other| *other == part))
            };
            if let Some(share) = share {
                let share = share as u32;
                self.happened(&address, Event::Fenced { share });
            }
        }
    }
}
