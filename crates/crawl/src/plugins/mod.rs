//! The plug-ins of the crawler: one file each, and one line each in [`PLUGINS`].

mod urls;

mod frontier;
mod seen_urls;

use flows::plugins::BuiltIn;

/// All of them, in the order in which they are explained.
pub static PLUGINS: &[BuiltIn] = &[
    BuiltIn::of::<seen_urls::SeenUrls>(),
    BuiltIn::of::<frontier::Frontier>(),
];
