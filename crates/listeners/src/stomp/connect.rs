//! CONNECT: who somebody is, and whether it is a node.

use std::time::Duration;

use kernel::Name;
use subtle::ConstantTimeEq;
use wire::stomp::{self, Command, Frame, HeartBeat};

use super::commands::{Outcome, Refusal};
use super::node::Node;
use super::session::StompSession;
use crate::session::Progress;
use crate::settings::User;

/// What a node is told in CONNECTED, with the version of the frames that are for nodes only.
const NODE_HEADER: (&str, &str) = ("hivewire-node", "1");

/// What somebody may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    Refused,
    Client,
    Node,
}

impl StompSession {
    pub(super) fn connect(&mut self, frame: &Frame<'_>, answers: &mut Vec<u8>) -> Outcome {
        let accept = frame.header("accept-version");
        let Some(version) = stomp::negotiate(accept.as_deref()) else {
            return Err(Refusal(format!(
                "no version in common: you offer {}, and 1.0, 1.1 and 1.2 are spoken here",
                accept.unwrap_or_default()
            )));
        };
        let client: HeartBeat = match frame.header("heart-beat") {
            Some(text) => text.parse()?,
            None => HeartBeat::default(),
        };
        self.node = self.admit(frame)?;
        // Without users anybody may say anything.
        let login = frame
            .header("login")
            .filter(|_| !self.settings.users.is_empty());
        self.user = login.map(std::borrow::Cow::into_owned);
        let ours = HeartBeat {
            can_send_every_ms: self.settings.stomp.heart_beat_send_ms,
            wants_every_ms: self.settings.stomp.heart_beat_want_ms,
        };
        self.heart.send_every = ours.sends_every_ms(client).map(Duration::from_millis);
        self.heart.expect_every = client.sends_every_ms(ours).map(Duration::from_millis);
        self.version = version;
        self.decoder.set_version(version);
        self.connected = true;
        let beats = ours.to_string();
        let headers = [
            ("version", version.as_str()),
            ("server", concat!("hivewire/", env!("CARGO_PKG_VERSION"))),
            ("session", self.id.as_str()),
            ("heart-beat", beats.as_str()),
        ];
        let headers = headers
            .into_iter()
            .chain(self.node.is_some().then_some(NODE_HEADER));
        stomp::encode(answers, version, Command::Connected, headers, None);
        Ok(Progress::Done)
    }

    /// Lets somebody in, as the node that it wants to be if it does.
    fn admit(&self, frame: &Frame<'_>) -> Result<Option<Node>, Refusal> {
        let login = frame.header("login").unwrap_or_default();
        let passcode = frame.header("passcode").unwrap_or_default();
        let access = access(&self.settings.users, self.is_local, &login, &passcode);
        if access == Access::Refused {
            return Err(Refusal("access refused: login or passcode is wrong".into()));
        }
        let Some(name) = frame.header("node") else {
            return Ok(None);
        };
        if access != Access::Node {
            return Err(Refusal(
                "access refused: this is not the login of a node; set `node = true` for its user or, without users, connect from the same machine"
                    .into(),
            ));
        }
        let name = Name::new(&name).map_err(|error| Refusal(format!("bad node name: {error}")))?;
        tracing::info!(node = %name, "a node is connected");
        Ok(Some(Node::new(name)))
    }
}

/// What somebody with this login may do.
fn access(users: &[User], is_local: bool, login: &str, passcode: &str) -> Access {
    if users.is_empty() {
        return if is_local {
            Access::Node
        } else {
            Access::Client
        };
    }
    // Every user is looked at, so that the time taken tells nothing.
    users.iter().fold(Access::Refused, |found, user| {
        let fits = user.name.as_bytes().ct_eq(login.as_bytes())
            & user.password.as_bytes().ct_eq(passcode.as_bytes());
        match (bool::from(fits), user.node) {
            (true, true) => Access::Node,
            (true, false) => Access::Client,
            (false, _) => found,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str, node: bool) -> User {
        User {
            name: name.to_owned(),
            password: format!("{name}'s secret"),
            node,
        }
    }

    #[test]
    fn a_node_is_who_is_said_to_be_one() {
        let users = [user("alice", false), user("hive2", true)];
        for is_local in [false, true] {
            let access = |login, passcode| access(&users, is_local, login, passcode);
            assert_eq!(access("alice", "alice's secret"), Access::Client);
            assert_eq!(access("hive2", "hive2's secret"), Access::Node);
            assert_eq!(access("hive2", "alice's secret"), Access::Refused);
            assert_eq!(access("", ""), Access::Refused);
        }
    }

    #[test]
    fn without_users_a_node_is_on_the_same_machine() {
        assert_eq!(access(&[], true, "", ""), Access::Node);
        assert_eq!(access(&[], false, "", ""), Access::Client);
    }
}
