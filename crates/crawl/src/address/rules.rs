//! What a normaliser does beyond what is always right.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::names::{Name, Names};
use crate::wrong::WrongParameter;

/// How many names `parameters_removed` may have.
const PARAMETERS_REMOVED_MAX: usize = 1_000;
/// What `url_bytes_max` may be at most.
const URL_BYTES_MOST: usize = 1 << 20;
/// How long the value of an ambiguous parameter must be to be taken for a session: `sid=7` may be a story.
const SESSION_BYTES_MIN: usize = 16;

/// Parameters that say where a visitor came from. They change nothing about the page.
const TRACKING: &[&str] = &[
    "utm_*",
    "_ga",
    "_gl",
    "_hsenc",
    "_hsmi",
    "__hsfp",
    "__hssc",
    "__hstc",
    "dclid",
    "fbclid",
    "gad_source",
    "gbraid",
    "gclid",
    "gclsrc",
    "hsctatracking",
    "igshid",
    "irclickid",
    "li_fat_id",
    "mc_cid",
    "mc_eid",
    "mkt_tok",
    "msclkid",
    "mtm_*",
    "oly_anon_id",
    "oly_enc_id",
    "pk_campaign",
    "pk_kwd",
    "pk_source",
    "srsltid",
    "ttclid",
    "twclid",
    "vero_conv",
    "vero_id",
    "wbraid",
    "wickedid",
    "yclid",
    "ysclid",
    "zanpid",
];

/// Parameters that hold a session and nothing else.
const SESSIONS: &[&str] = &[
    "aspsessionid*",
    "cfid",
    "cftoken",
    "jsessionid",
    "oscsid",
    "phpsessid",
    "xtcsid",
    "zenid",
];

/// Parameters that hold a session if their value is long.
const SESSIONS_IF_LONG: &[&str] = &["session", "session_id", "sessionid", "sid"];

/// What a [`Normaliser`](super::Normaliser) does beyond what is always right, and what it refuses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NormaliserRules {
    /// Whether parameters that only say where a visitor came from are removed, such as `utm_source` and `gclid`.
    pub tracking_removed: bool,
    /// Whether session ids are removed, such as `PHPSESSID` in the query and `;jsessionid=` in the path.
    pub sessions_removed: bool,
    /// More query parameters to remove: names in any case, such as `ref`, or beginnings of names, such as `track_*`.
    pub parameters_removed: Vec<String>,
    /// Whether query parameters are sorted by name. For most sites their order means nothing, but for some it does.
    pub query_sorted: bool,
    /// Whether `index.html` and the like are removed from the end of a path.
    pub index_files_removed: bool,
    /// How long an address may be.
    pub url_bytes_max: usize,
    /// How many segments a path may have.
    pub path_segments_max: usize,
    /// How often the same segment may occur in a path. Broken relative links make endless paths that repeat themselves.
    pub segment_repeats_max: usize,
    /// How many parameters a query may have.
    pub query_parameters_max: usize,
}

impl Default for NormaliserRules {
    fn default() -> Self {
        Self {
            tracking_removed: true,
            sessions_removed: true,
            parameters_removed: Vec::new(),
            query_sorted: false,
            index_files_removed: false,
            url_bytes_max: 2_048,
            path_segments_max: 32,
            segment_repeats_max: 3,
            query_parameters_max: 32,
        }
    }
}

impl NormaliserRules {
    /// Tells what is wrong with them.
    pub fn check(&self) -> Result<(), WrongParameter> {
        if !(16..=URL_BYTES_MOST).contains(&self.url_bytes_max) {
            let reason = format!("must be from 16 to {URL_BYTES_MOST}");
            return Err(WrongParameter::new("url_bytes_max", reason));
        }
        if self.parameters_removed.len() > PARAMETERS_REMOVED_MAX {
            let reason = format!("must be {PARAMETERS_REMOVED_MAX} names at most");
            return Err(WrongParameter::new("parameters_removed", reason));
        }
        for (index, name) in self.parameters_removed.iter().enumerate() {
            let letters = name.strip_suffix('*').unwrap_or(name);
            if letters.is_empty() || letters.contains(['*', '&', '=', '#']) {
                let reason = "must be the name of a query parameter, or the beginning of names followed by `*`";
                let field = format!("parameters_removed[{index}]");
                return Err(WrongParameter::new(field, reason));
            }
        }
        Ok(())
    }

    pub(super) fn names_removed(&self) -> Names {
        let named = |names: &[&str], value_bytes_min: usize| -> Vec<Name> {
            let name = |name: &&str| Name::of(name, value_bytes_min);
            names.iter().map(name).collect()
        };
        let mut names = Vec::new();
        if self.tracking_removed {
            names.extend(named(TRACKING, 0));
        }
        if self.sessions_removed {
            names.extend(named(SESSIONS, 0));
            names.extend(named(SESSIONS_IF_LONG, SESSION_BYTES_MIN));
        }
        names.extend(self.parameters_removed.iter().map(|name| Name::of(name, 0)));
        Names::new(names)
    }

    pub(super) fn names_removed_in_path(&self) -> Names {
        let names = match self.sessions_removed {
            true => SESSIONS.iter().map(|name| Name::of(name, 0)).collect(),
            false => Vec::new(),
        };
        Names::new(names)
    }
}
