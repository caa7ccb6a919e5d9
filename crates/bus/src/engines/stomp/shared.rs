//! A subscription of a node: it shares the connection on which the node commits.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{oneshot, watch};
use wire::stomp::{self, Command};

use super::inbox::Inbox;
use super::link::Link;
use super::receipts::Outcome;
use super::session::Session;
use super::subscription::{CLOSE_TIMEOUT, OPEN_TIMEOUT, Wanted};
use crate::error::BusError;

/// Subscriptions are numbered within the process. The first is 1, so that 0 stands for none.
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// Feeds a subscription from one connection after another, until the subscription is dropped.
pub(super) struct SharedFeeder {
    pub wanted: Wanted,
    pub link: Arc<Link>,
    pub inbox: Arc<Inbox>,
    pub closed: watch::Receiver<()>,
    /// Whom to tell that the subscription works, or never will.
    pub started: Option<oneshot::Sender<Result<(), BusError>>>,
}

/// How the use of a connection ended.
enum Ended {
    /// The subscription was dropped, or will never work.
    Left,
    Lost,
}

impl SharedFeeder {
    pub async fn run(mut self) {
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let mut closed = self.closed.clone();
        loop {
            let session = tokio::select! {
                _ = closed.changed() => return,
                session = self.link.connected_some_time() => session,
            };
            if let Ended::Left = self.serve(&session, id).await {
                return;
            }
        }
    }

    async fn serve(&mut self, session: &Arc<Session>, id: u64) -> Ended {
        session.route(id, self.inbox.clone());
        self.inbox.begin(session.clone());
        let Ok(mut subscribed) = self.wanted.subscribe(session, id) else {
            self.inbox.end();
            return Ended::Lost;
        };
        let mut closed = self.closed.clone();
        let mut too_late = std::pin::pin!(tokio::time::sleep(OPEN_TIMEOUT));
        let mut is_open = false;
        let mut over = std::pin::pin!(session.over());
        loop {
            tokio::select! {
                outcome = &mut subscribed, if !is_open => {
                    is_open = true;
                    if let Ok(outcome) = outcome && let Some(error) = self.wanted.refusal(session, outcome) {
                        // Later refusals may pass, the first one is told to whoever subscribes.
                        if let Some(started) = self.started.take() {
                            let _ = started.send(Err(error));
                            self.inbox.end();
                            return Ended::Left;
                        }
                    } else if let Some(started) = self.started.take_if(|_| !session.is_over()) {
                        let _ = started.send(Ok(()));
                    }
                }
                () = &mut over => break,
                _ = closed.changed() => {
                    self.leave(session, id).await;
                    return Ended::Left;
                }
                () = &mut too_late, if !is_open => {
                    session.end("the server did not answer a SUBSCRIBE in time");
                }
            }
        }
        self.inbox.end();
        tracing::warn!(from = %self.wanted.from, "the subscription is interrupted");
        Ended::Lost
    }

    /// Gives everything back and waits until the server has it.
    async fn leave(&self, session: &Session, id: u64) {
        self.inbox.release_waiting();
        let asked = session.ask(|bytes| {
            stomp::begin(bytes, Command::Unsubscribe);
            stomp::header_number(bytes, "id", id);
        });
        if let Ok(outcome) = asked {
            // If the server does not answer in time, the end of the connection will do.
            let _: Result<Result<Outcome, _>, _> =
                tokio::time::timeout(CLOSE_TIMEOUT, outcome).await;
        }
        session.unroute(id);
        self.inbox.end();
    }
}
