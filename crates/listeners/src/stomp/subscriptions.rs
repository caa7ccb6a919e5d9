//! The subscriptions of one connection.

use std::collections::HashMap;

use broker::{AckMode, Delivery, Entry, Subscription};
use wire::stomp::Version;

use super::encode;
use crate::clients::{ClientSubscription, written};

/// One subscription, with what its frames begin with.
pub(super) struct Subscribed {
    pub id: String,
    pub destination: String,
    pub mode: AckMode,
    pub subscription: Subscription,
    /// How many messages it may have without acknowledging them.
    pub prefetch: u32,
    /// It was made by us for a reply address, not by the client.
    pub implied: bool,
    message_start: Vec<u8>,
}

impl Subscribed {
    pub fn new(
        version: Version,
        id: String,
        destination: String,
        mode: AckMode,
        subscription: Subscription,
        prefetch: u32,
    ) -> Self {
        let message_start = encode::message_start(version, &id, &destination);
        Self {
            id,
            destination,
            mode,
            subscription,
            prefetch,
            implied: false,
            message_start,
        }
    }

    pub fn encode(&self, version: Version, token: u32, entry: &Entry, out: &mut Vec<u8>) {
        let acknowledged = self.mode != AckMode::Auto;
        encode::message(
            out,
            version,
            &self.message_start,
            token,
            acknowledged,
            entry,
        );
    }

    /// Whether an acknowledgement covers everything before it.
    pub fn through(&self) -> bool {
        self.mode == AckMode::Client
    }
}

/// All of them, by token and by id.
#[derive(Default)]
pub(super) struct Subscriptions {
    by_token: HashMap<u32, Subscribed>,
    tokens: HashMap<String, u32>,
    next_token: u32,
    ending: Vec<u32>,
}

impl Subscriptions {
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// All of them, for people who look.
    pub fn describe(&self) -> Vec<ClientSubscription> {
        let described = |subscribed: &Subscribed| ClientSubscription {
            destination: written(subscribed.subscription.destination()),
            waiting_acks: subscribed.subscription.unacknowledged() as u64,
            prefetch: (subscribed.mode != AckMode::Auto).then_some(subscribed.prefetch),
        };
        let mut all: Vec<_> = self.by_token.values().map(described).collect();
        all.sort_by(|a, b| a.destination.cmp(&b.destination));
        all
    }

    pub fn contains(&self, id: &str) -> bool {
        self.tokens.contains_key(id)
    }

    pub fn take_token(&mut self) -> u32 {
        self.next_token += 1;
        self.next_token
    }

    pub fn insert(&mut self, token: u32, subscribed: Subscribed) {
        self.tokens.insert(subscribed.id.clone(), token);
        self.by_token.insert(token, subscribed);
    }

    pub fn get(&self, token: u32) -> Option<&Subscribed> {
        self.by_token.get(&token)
    }

    pub fn has_destination(&self, destination: &str) -> bool {
        self.by_token
            .values()
            .any(|subscribed| subscribed.destination == destination)
    }

    /// The subscription that was implied for this destination.
    pub fn implied(&self, destination: &str) -> Option<String> {
        self.by_token
            .values()
            .find(|subscribed| subscribed.implied && subscribed.destination == destination)
            .map(|subscribed| subscribed.id.clone())
    }

    /// Notes that a subscription was not made by the client.
    pub fn imply(&mut self, token: u32) {
        if let Some(subscribed) = self.by_token.get_mut(&token) {
            subscribed.implied = true;
        }
    }

    /// Marks a subscription for its end; says whether there is one.
    pub fn begin_end(&mut self, id: &str) -> bool {
        match self.tokens.remove(id) {
            Some(token) => {
                self.ending.push(token);
                true
            }
            None => false,
        }
    }

    /// The subscriptions that are to end now.
    pub fn take_ending(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.ending)
    }

    pub fn end(&mut self, token: u32, unsent: Vec<Entry>) {
        if let Some(subscribed) = self.by_token.remove(&token) {
            subscribed.subscription.close(unsent, false);
        }
    }

    pub fn sent(&self, deliveries: &[Delivery]) {
        for run in deliveries.chunk_by(|a, b| a.subscription == b.subscription) {
            if let Some(subscribed) = self.get(run[0].subscription) {
                subscribed.subscription.sent(run);
            }
        }
    }

    /// Ends all of them and gives back what did not go out.
    pub fn close(self, unsent: Vec<Delivery>) {
        let mut unsent_by: HashMap<u32, Vec<Entry>> = HashMap::new();
        for delivery in unsent {
            unsent_by
                .entry(delivery.subscription)
                .or_default()
                .push(delivery.entry);
        }
        for (token, subscribed) in self.by_token {
            let unsent = unsent_by.remove(&token).unwrap_or_default();
            subscribed.subscription.close(unsent, false);
        }
    }
}
