//! A connection that many share, made again whenever it is lost.

use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::backoff::Backoff;
use super::handshake::Door;
use super::session::Session;
use crate::deadline::Deadline;
use crate::error::BusError;

/// The connection, or why there is none.
#[derive(Clone)]
enum State {
    Down(Arc<str>),
    Up(Arc<Session>),
}

/// Keeps a connection up.
pub(super) struct Link {
    state: watch::Receiver<State>,
    task: AbortHandle,
}

impl Link {
    pub fn start(door: Arc<Door>) -> Self {
        let (sender, state) = watch::channel(State::Down("not connected yet".into()));
        let task = tokio::spawn(keep_connected(door, sender)).abort_handle();
        Self { state, task }
    }

    /// The connection, as soon as there is one.
    pub async fn connected(
        &self,
        what: &str,
        deadline: Deadline,
    ) -> Result<Arc<Session>, BusError> {
        let found = deadline.limit(self.connected_some_time()).await;
        found.map_err(|_| {
            let reason = self.trouble();
            deadline.timeout(what, reason.unwrap_or_else(|| "no answer".into()))
        })
    }

    /// The connection, if there is one.
    pub fn connected_now(&self) -> Option<Arc<Session>> {
        match &*self.state.borrow() {
            State::Up(session) if !session.is_over() => Some(session.clone()),
            _ => None,
        }
    }

    /// Why there is no connection, if there is none.
    pub fn trouble(&self) -> Option<String> {
        match &*self.state.borrow() {
            State::Down(reason) => Some(reason.to_string()),
            State::Up(_) => None,
        }
    }

    /// The connection, however long that takes.
    pub async fn connected_some_time(&self) -> Arc<Session> {
        let mut state = self.state.clone();
        loop {
            if let State::Up(session) = &*state.borrow_and_update()
                && !session.is_over()
            {
                return session.clone();
            }
            // An error here means that the task has ended with the runtime.
            if state.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn keep_connected(door: Arc<Door>, state: watch::Sender<State>) {
    let mut backoff = Backoff::new(door.pause_max);
    loop {
        backoff.attempt();
        let reason = match door.open().await {
            Ok(opened) => {
                let session = Arc::new(Session::new(opened.server));
                state.send_replace(State::Up(session.clone()));
                tracing::info!("connected to the STOMP server");
                session.run(opened, None).await
            }
            Err(reason) => reason,
        };
        tracing::warn!("no connection to the STOMP server: {reason}; trying again");
        state.send_replace(State::Down(reason));
        backoff.pause().await;
    }
}
