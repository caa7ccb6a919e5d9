//! What a site asks of crawlers in its `robots.txt`: RFC 9309, and besides it `crawl-delay`, `request-rate` and `sitemap`.
//!
//! ```
//! use crawl::robots::Robots;
//!
//! let robots = Robots::parse(b"User-agent: *\nDisallow: /private\nAllow: /private/notes$\nCrawl-delay: 2\n");
//! let rules = robots.for_agent("HivewireBot");
//! assert!(rules.decide("/private/notes").allowed);
//! let decision = rules.decide("/private/notes/1");
//! assert!(!decision.allowed);
//! let line = decision.line.unwrap();
//! assert_eq!((line.number, line.text.as_ref()), (2, "Disallow: /private"));
//! ```
//!
//! What it deliberately does not do: it fetches nothing. [`OfStatus`] says what follows from how the fetch went.

mod parse;
mod pattern;
mod status;

use std::time::Duration;

pub use status::{OfStatus, REDIRECTS_MAX};

use parse::{Line as ParsedLine, lines};
use pattern::{Path, Pattern};

/// How much of a file is read. The RFC asks for this much at least.
pub const ROBOTS_BYTES_MAX: usize = 500 * 1_024;
/// How long a site can ask to wait between two requests. Anything longer counts as this.
pub const CRAWL_DELAY_MAX: Duration = Duration::from_secs(3_600);
/// How many sitemaps of a file are kept.
pub const SITEMAPS_MAX: usize = 1_000;

/// How much of a line is kept to be shown.
const LINE_CHARACTERS_MAX: usize = 200;
/// The RFC allows everybody to fetch it.
const ROBOTS_PATH: &str = "/robots.txt";

/// A `robots.txt`, understood.
#[derive(Clone, Debug, Default)]
pub struct Robots {
    groups: Vec<Group>,
    sitemaps: Vec<String>,
}

/// Lines of a file that belong together.
#[derive(Clone, Debug, Default)]
struct Group {
    /// In lower case; `*` stands for everybody else.
    agents: Vec<String>,
    rules: Vec<Rule>,
    delay: Option<Duration>,
}

/// One line that allows or disallows something.
#[derive(Clone, Debug)]
struct Rule {
    allow: bool,
    pattern: Pattern,
    line: Line,
}

/// A line of a `robots.txt`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Its number, from 1.
    pub number: u32,
    /// What it says, shortened if it is long.
    pub text: Box<str>,
}

/// Whether a path may be fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Whether it may.
    pub allowed: bool,
    /// The line that decided; none if no line is about this path.
    pub line: Option<Line>,
}

impl Robots {
    /// Understands a file as far as it can be understood. There is no file that it refuses.
    pub fn parse(bytes: &[u8]) -> Self {
        let mut robots = Self::default();
        // Whether the next user agent begins a new group.
        let mut group_has_rules = true;
        for (line, text) in lines(bytes) {
            match line {
                ParsedLine::Agent(agent) => {
                    if group_has_rules {
                        robots.groups.push(Group::default());
                        group_has_rules = false;
                    }
                    if let Some(group) = robots.groups.last_mut() {
                        group.agents.push(agent);
                    }
                }
                ParsedLine::Rule { allow, pattern } => {
                    group_has_rules = true;
                    if let Some(group) = robots.groups.last_mut() {
                        group.add(allow, pattern, text);
                    }
                }
                // Neither of these ends a group: the RFC says that other lines must not interfere with those it defines.
                ParsedLine::Delay(delay) => {
                    if let Some(group) = robots.groups.last_mut() {
                        group.delay = group.delay.max(Some(delay));
                    }
                }
                ParsedLine::Sitemap(url) if robots.sitemaps.len() < SITEMAPS_MAX => {
                    robots.sitemaps.push(url);
                }
                ParsedLine::Sitemap(_) => {}
            }
        }
        robots
    }

    /// What it asks of this crawler: all groups that name it, or those for everybody if none does. Only the product token counts, so
    /// that `HivewireBot/1.0` is `HivewireBot`.
    pub fn for_agent(&self, agent: &str) -> Rules {
        let agent = parse::product_token(agent);
        // An agent without a token is named by nobody.
        match !agent.is_empty() && self.groups_for(&agent).next().is_some() {
            true => Rules::of(self.groups_for(&agent)),
            false => Rules::of(self.groups_for("*")),
        }
    }

    fn groups_for<'g>(&'g self, name: &'g str) -> impl Iterator<Item = &'g Group> {
        let fits = move |group: &&Group| group.agents.iter().any(|agent| agent == name);
        self.groups.iter().filter(fits)
    }

    /// The addresses of sitemaps it names, as they stand there.
    pub fn sitemaps(&self) -> &[String] {
        &self.sitemaps
    }
}

impl Group {
    fn add(&mut self, allow: bool, pattern: &[u8], text: (u32, &[u8])) {
        // An empty pattern is about no path.
        if pattern.is_empty() {
            return;
        }
        let (number, bytes) = text;
        let text = String::from_utf8_lossy(bytes);
        let mut shown: String = text.trim().chars().take(LINE_CHARACTERS_MAX).collect();
        if shown.len() < text.trim().len() {
            shown.push('…');
        }
        self.rules.push(Rule {
            allow,
            pattern: Pattern::new(pattern),
            line: Line {
                number,
                text: shown.into(),
            },
        });
    }
}

/// What a `robots.txt` asks of one crawler.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// The longest pattern first, and of equally long ones those that allow: the first that fits decides.
    rules: Vec<Rule>,
    delay: Option<Duration>,
    /// Nothing may be fetched, whatever the rules are.
    nothing: bool,
}

impl Rules {
    /// Everything is allowed.
    pub fn allow_all() -> Self {
        Self::default()
    }

    /// Nothing is allowed.
    pub fn disallow_all() -> Self {
        Self {
            nothing: true,
            ..Self::default()
        }
    }

    fn of<'g>(groups: impl Iterator<Item = &'g Group>) -> Self {
        let mut all = Self::default();
        for group in groups {
            all.rules.extend(group.rules.iter().cloned());
            all.delay = all.delay.max(group.delay);
        }
        all.rules
            .sort_by_key(|rule| (usize::MAX - rule.pattern.octets(), !rule.allow));
        all
    }

    /// Whether this may be fetched: a path, with `?` and the query if there is one.
    pub fn decide(&self, path_and_query: &str) -> Decision {
        if self.nothing || self.rules.is_empty() || path_and_query == ROBOTS_PATH {
            return Decision {
                allowed: !self.nothing,
                line: None,
            };
        }
        let path = Path::new(path_and_query);
        let deciding = self.rules.iter().find(|rule| rule.pattern.fits(&path));
        Decision {
            allowed: deciding.is_none_or(|rule| rule.allow),
            line: deciding.map(|rule| rule.line.clone()),
        }
    }

    /// How long the site asks to wait between two requests, at most [`CRAWL_DELAY_MAX`].
    pub fn crawl_delay(&self) -> Option<Duration> {
        self.delay
    }
}

#[cfg(test)]
mod oracles;
#[cfg(test)]
mod tests;
