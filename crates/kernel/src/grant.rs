//! Grants: what a worker may do beyond its own flow. It starts with none.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Address, AddressError, StageAddress};

/// One thing that a worker may do.
///
/// As text: `send:ADDRESS`, where the address is one as [`Address`] writes it, or `send:flow/*` for
/// all stages of a flow, or `send:queue:*` and `send:topic:*` for all queues and topics.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub enum Grant {
    /// Sending to one address, and to the workers of the stage if it is one.
    Send(Address),
    /// Sending to every stage of a flow.
    SendFlow(Box<str>),
    /// Sending to every queue that belongs to no stage.
    SendQueues,
    /// Sending to every topic.
    SendTopics,
}

/// Why a text is no grant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GrantError {
    /// Its kind is not known.
    #[error("{text:?} is no grant: write send:ADDRESS, send:FLOW/*, send:queue:* or send:topic:*")]
    Form {
        /// The text.
        text: String,
    },
    /// Its address does not fit.
    #[error("in the grant {text:?}: {source}")]
    Address {
        /// The text.
        text: String,
        /// What is wrong with the address.
        source: AddressError,
    },
}

impl Grant {
    /// Whether it lets one send to `address`.
    pub fn covers(&self, address: &Address) -> bool {
        match (self, address) {
            (Self::Send(Address::Stage(stage)), Address::Worker(worker)) => worker.stage() == stage,
            (Self::Send(granted), address) => granted == address,
            (Self::SendFlow(flow), Address::Stage(stage)) => stage.flow().as_str() == &**flow,
            (Self::SendFlow(flow), Address::Worker(worker)) => {
                worker.stage().flow().as_str() == &**flow
            }
            (Self::SendQueues, Address::Queue(_)) | (Self::SendTopics, Address::Topic(_)) => true,
            _ => false,
        }
    }
}

impl FromStr for Grant {
    type Err = GrantError;

    fn from_str(text: &str) -> Result<Self, GrantError> {
        let form = || GrantError::Form {
            text: text.to_owned(),
        };
        let address_error = |source| GrantError::Address {
            text: text.to_owned(),
            source,
        };
        match text.strip_prefix("send:").ok_or_else(form)? {
            "queue:*" => Ok(Self::SendQueues),
            "topic:*" => Ok(Self::SendTopics),
            address => match address.strip_suffix("/*") {
                Some(flow) => {
                    StageAddress::new(flow, "any").map_err(address_error)?;
                    Ok(Self::SendFlow(flow.into()))
                }
                None => Ok(Self::Send(address.parse().map_err(address_error)?)),
            },
        }
    }
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Send(address) => write!(f, "send:{address}"),
            Self::SendFlow(flow) => write!(f, "send:{flow}/*"),
            Self::SendQueues => f.write_str("send:queue:*"),
            Self::SendTopics => f.write_str("send:topic:*"),
        }
    }
}

impl TryFrom<String> for Grant {
    type Error = GrantError;

    fn try_from(text: String) -> Result<Self, GrantError> {
        text.parse()
    }
}

impl From<Grant> for String {
    fn from(grant: Grant) -> Self {
        grant.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grants_cover_what_they_name() {
        let covers = |grant: &str, address: &str| {
            let grant: Grant = grant.parse().unwrap();
            assert_eq!(grant.to_string().parse::<Grant>().unwrap(), grant);
            grant.covers(&address.parse().unwrap())
        };
        assert!(covers("send:shop/orders", "shop/orders"));
        assert!(covers("send:shop/orders", "shop/orders/2"));
        assert!(!covers("send:shop/orders", "shop/bills"));
        assert!(covers("send:shop/*", "shop/bills/1"));
        assert!(!covers("send:shop/*", "bank/bills"));
        assert!(covers("send:queue:audit", "queue:audit"));
        assert!(!covers("send:queue:audit", "topic:audit"));
        assert!(covers("send:queue:*", "queue:audit"));
        assert!(!covers("send:queue:*", "topic:audit"));
        assert!(covers("send:topic:*", "topic:audit"));
    }

    #[test]
    fn what_is_no_grant_is_refused() {
        for text in ["", "send", "read:queue:a", "send:nowhere", "send:a.b/*"] {
            assert!(text.parse::<Grant>().is_err(), "{text}");
        }
    }
}
