//! The plug-ins of the crawler: one file each, and one line each in [`PLUGINS`].

mod domain_filter;
#[cfg(test)]
mod rig;
mod url_normaliser;
mod urls;

use flows::plugins::BuiltIn;

/// All of them, in the order in which they are explained.
pub static PLUGINS: &[BuiltIn] = &[
    BuiltIn::of::<url_normaliser::UrlNormaliser>(),
    BuiltIn::of::<domain_filter::DomainFilter>(),
];
