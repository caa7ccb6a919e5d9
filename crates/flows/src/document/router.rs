//! Which router a stage has, as documents name it.

use std::fmt;

use runtime::RouterKind;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::plugin_reference::PluginReference;

/// How the events of a stage find their workers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub enum RouterChoice {
    /// One that is built in.
    Kind(RouterKind),
    /// One's own: a component.
    Own(PluginReference),
}

impl RouterChoice {
    /// Its kind.
    pub fn kind(&self) -> RouterKind {
        match self {
            Self::Kind(kind) => *kind,
            Self::Own(_) => RouterKind::Own,
        }
    }
}

impl TryFrom<String> for RouterChoice {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let error = match text.parse::<RouterKind>() {
            Ok(RouterKind::Own) => {
                return Err("name the component of your own router: its path or URI".to_owned());
            }
            Ok(kind) => return Ok(Self::Kind(kind)),
            Err(error) => error,
        };
        match text.parse() {
            // A bare name is a router that was written wrong, not a plug-in.
            Ok(PluginReference::Id(_)) | Err(_) => {
                Err(format!("{error}, or the path or URI of your own"))
            }
            Ok(own) => Ok(Self::Own(own)),
        }
    }
}

impl fmt::Display for RouterChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kind(kind) => kind.fmt(f),
            Self::Own(own) => own.fmt(f),
        }
    }
}

impl From<RouterChoice> for String {
    fn from(choice: RouterChoice) -> Self {
        choice.to_string()
    }
}
