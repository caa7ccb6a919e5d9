//! From what is wrong to what is told.

use std::collections::BTreeMap;
use std::time::Duration;

use kernel::Timestamp;

use super::conditions::{self, Finding, Look};
use super::growth::Growths;
use super::notice::{Alert, AlertState, Notice};
use super::observation::{Labels, Observation, Speakers};
use super::rule::Rule;
use super::silence::Silences;

/// How long the text of an alert may be.
const DETAIL_CHARACTERS_MAX: usize = 500;

/// How much and how often is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// After the first alert of a rule, others are waited for this long, so that they share a notice.
    pub group_wait: Duration,
    /// What still fires is told again after this time.
    pub repeat_every: Duration,
    /// How many alerts of one rule there may be; what is beyond is counted only.
    pub alerts_per_rule_max: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            group_wait: Duration::from_secs(10),
            repeat_every: Duration::from_secs(4 * 3_600),
            alerts_per_rule_max: 100,
        }
    }
}

/// All alerts of a node.
#[derive(Clone, Debug)]
pub struct Alerts {
    settings: Settings,
    watches: Vec<Watch>,
    silences: Silences,
    notices: u64,
}

/// A rule and what came of it.
#[derive(Clone, Debug)]
struct Watch {
    rule: Rule,
    growths: Growths,
    episodes: BTreeMap<Labels, Episode>,
    /// What has ended and is to be told.
    recovered: Vec<Alert>,
    /// Since when there has been something to tell.
    group_since: Option<Timestamp>,
    left_out: usize,
}

/// One alert, from the first look at which its condition holds to the first at which it does not.
#[derive(Clone, Debug)]
struct Episode {
    finding: Finding,
    since: Timestamp,
    fired_at: Option<Timestamp>,
    /// It fires, and that is to be told.
    is_due: bool,
    told: Option<Told>,
    silence: Option<u64>,
}

/// That an alert was told.
#[derive(Clone, Debug)]
struct Told {
    at: Timestamp,
    /// The node that did, if it was another one.
    by: Option<String>,
}

impl Alerts {
    /// Nothing is wrong yet.
    pub fn new(rules: Vec<Rule>, settings: Settings) -> Self {
        let watches = rules.into_iter().map(Watch::new);
        Self {
            settings,
            watches: watches.collect(),
            silences: Silences::default(),
            notices: 0,
        }
    }

    /// The rules.
    pub fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.watches.iter().map(|watch| &watch.rule)
    }

    /// From now on these rules hold. What is known of a rule that stays is kept; alerts of one that goes
    /// go with it, and nobody is told.
    pub fn set_rules(&mut self, rules: Vec<Rule>, settings: Settings) {
        self.settings = settings;
        let mut before = std::mem::take(&mut self.watches);
        let kind = |rule: &Rule| std::mem::discriminant(&rule.condition);
        for rule in rules {
            let is_same =
                |watch: &Watch| watch.rule.name == rule.name && kind(&watch.rule) == kind(&rule);
            let known = before.iter().position(is_same);
            self.watches.push(match known {
                Some(known) => Watch {
                    rule,
                    ..before.swap_remove(known)
                },
                None => Watch::new(rule),
            });
        }
    }

    /// From now on these silences hold, and no others.
    pub fn set_silences(&mut self, silences: Silences) {
        self.silences = silences;
    }

    /// Something was observed. Gives what is to be told.
    pub fn step(&mut self, seen: &Observation, now: Timestamp) -> Vec<Notice> {
        let looks = self.watches.iter_mut();
        let looks = looks.map(|watch| watch.look(seen, now)).collect();
        self.found(looks, &Speakers::of(&seen.nodes), now)
    }

    /// This was found, rule by rule.
    pub(super) fn found(
        &mut self,
        looks: Vec<Look>,
        speakers: &Speakers<'_>,
        now: Timestamp,
    ) -> Vec<Notice> {
        let mut notices = Vec::new();
        for (watch, look) in self.watches.iter_mut().zip(looks) {
            watch.take_in(look, &self.settings, &self.silences, speakers, now);
            if let Some(mut notice) = watch.tell(&self.settings, &self.silences, speakers, now) {
                self.notices += 1;
                notice.number = self.notices;
                notices.push(notice);
            }
        }
        notices
    }

    /// All alerts that are pending, firing or silenced.
    pub fn list(&self, now: Timestamp) -> Vec<Alert> {
        let list = self.watches.iter().flat_map(|watch| {
            let shown = watch.episodes.values().map(|episode| {
                let mut alert = shown(&watch.rule, episode);
                // A silence may have come or gone since the last look.
                alert.silence = self.silences.covering(&alert.rule, &alert.labels, now);
                alert.state = episode.state(alert.silence.is_some());
                alert
            });
            shown.collect::<Vec<Alert>>()
        });
        list.collect()
    }

    /// How many alerts fire and are not silenced.
    pub fn firing(&self) -> usize {
        let episodes = self
            .watches
            .iter()
            .flat_map(|watch| watch.episodes.values());
        let fires = |episode: &&Episode| episode.fired_at.is_some() && episode.silence.is_none();
        episodes.filter(fires).count()
    }

    /// How much more is wrong than there is room for.
    pub fn left_out(&self) -> usize {
        self.watches.iter().map(|watch| watch.left_out).sum()
    }
}

impl Watch {
    fn new(rule: Rule) -> Self {
        Self {
            rule,
            growths: Growths::default(),
            episodes: BTreeMap::new(),
            recovered: Vec::new(),
            group_since: None,
            left_out: 0,
        }
    }

    fn look(&mut self, seen: &Observation, now: Timestamp) -> Look {
        conditions::look(&self.rule, &mut self.growths, seen, now)
    }

    /// Begins, continues and ends alerts.
    fn take_in(
        &mut self,
        look: Look,
        settings: &Settings,
        silences: &Silences,
        speakers: &Speakers<'_>,
        now: Timestamp,
    ) {
        let findings = look.findings.into_iter();
        let mut found: BTreeMap<Labels, Finding> =
            findings.map(|one| (one.labels.clone(), one)).collect();
        for (labels, mut episode) in std::mem::take(&mut self.episodes) {
            episode.silence = silences.covering(&self.rule.name, &labels, now);
            match found.remove(&labels) {
                Some(finding) => episode.goes_on(finding, self.rule.pending_for(), now),
                None if look.is_partial => {}
                None => {
                    self.end(&episode, speakers, now);
                    continue;
                }
            }
            self.episodes.insert(labels, episode);
        }
        let room = settings
            .alerts_per_rule_max
            .saturating_sub(self.episodes.len());
        self.left_out = found.len().saturating_sub(room);
        for (labels, finding) in found.into_iter().take(room) {
            let mut episode = Episode::new(finding.clone(), now);
            episode.silence = silences.covering(&self.rule.name, &labels, now);
            episode.goes_on(finding, self.rule.pending_for(), now);
            self.episodes.insert(labels, episode);
        }
    }

    /// The condition of an alert holds no longer. Who was told of it is told of that.
    fn end(&mut self, episode: &Episode, speakers: &Speakers<'_>, now: Timestamp) {
        let Some(told) = &episode.told else {
            return;
        };
        let is_ours = match &told.by {
            None => true,
            // Whoever told it tells the end, too, if it is there to do so.
            Some(by) => !speakers.lives(by) && speakers.other().is_none(),
        };
        if episode.silence.is_none() && is_ours {
            let mut alert = shown(&self.rule, episode);
            alert.state = AlertState::Recovered;
            alert.recovered_at_ms = Some(now.as_millis());
            self.recovered.push(alert);
        }
    }

    /// What is to be told now, if anything.
    fn tell(
        &mut self,
        settings: &Settings,
        silences: &Silences,
        speakers: &Speakers<'_>,
        now: Timestamp,
    ) -> Option<Notice> {
        let (rule, recovered) = (&self.rule.name, &mut self.recovered);
        recovered.retain(|alert| silences.covering(rule, &alert.labels, now).is_none());
        let has_due = self.episodes.values().any(Episode::is_to_be_told);
        let is_group_over = if has_due || !self.recovered.is_empty() {
            now.since(*self.group_since.get_or_insert(now)) >= settings.group_wait
        } else {
            self.group_since = None;
            false
        };
        if is_group_over {
            self.group_since = None;
        }
        let (mut firing, mut is_repeat) = (Vec::new(), true);
        for episode in self.episodes.values_mut() {
            let is_due = is_group_over && episode.is_to_be_told();
            let is_old = episode.is_to_be_repeated(settings.repeat_every, now);
            if (is_due || is_old) && episode.tell(speakers, now) {
                is_repeat &= !is_due;
                firing.push(shown(&self.rule, episode));
            }
        }
        let recovered = match is_group_over {
            true => std::mem::take(&mut self.recovered),
            false => Vec::new(),
        };
        if firing.is_empty() && recovered.is_empty() {
            return None;
        }
        Some(Notice {
            number: 0,
            at: now,
            rule: self.rule.name.clone(),
            severity: self.rule.severity,
            is_repeat: is_repeat && recovered.is_empty(),
            firing,
            recovered,
            left_out: self.left_out,
        })
    }
}

fn shown(rule: &Rule, episode: &Episode) -> Alert {
    let finding = &episode.finding;
    let told_here = episode.told.as_ref().filter(|told| told.by.is_none());
    Alert {
        rule: rule.name.clone(),
        severity: rule.severity,
        state: episode.state(episode.silence.is_some()),
        labels: finding.labels.clone(),
        value: finding.value,
        detail: finding.detail.clone(),
        since_ms: episode.since.as_millis(),
        fired_at_ms: episode.fired_at.map(Timestamp::as_millis),
        told_at_ms: told_here.map(|told| told.at.as_millis()),
        told_by: episode.told.as_ref().and_then(|told| told.by.clone()),
        recovered_at_ms: None,
        silence: episode.silence,
    }
}

impl Episode {
    fn new(finding: Finding, now: Timestamp) -> Self {
        Self {
            finding,
            since: now,
            fired_at: None,
            is_due: false,
            told: None,
            silence: None,
        }
    }

    fn goes_on(&mut self, mut finding: Finding, pending_for: Duration, now: Timestamp) {
        if let Some((end, _)) = finding.detail.char_indices().nth(DETAIL_CHARACTERS_MAX) {
            finding.detail.truncate(end);
        }
        self.finding = finding;
        if self.fired_at.is_none() && now.since(self.since) >= pending_for {
            self.fired_at = Some(now);
            self.is_due = true;
        }
        // What still fires when its silence ends is told then, whatever was told before.
        self.is_due |= self.fired_at.is_some() && self.silence.is_some();
    }

    fn is_to_be_told(&self) -> bool {
        self.is_due && self.silence.is_none()
    }

    fn is_to_be_repeated(&self, repeat_every: Duration, now: Timestamp) -> bool {
        let told = self.told.as_ref();
        let is_old = told.is_some_and(|told| now.since(told.at) >= repeat_every);
        is_old && !self.is_due && self.silence.is_none()
    }

    /// Notes that it is told now. Whether this node has to.
    fn tell(&mut self, speakers: &Speakers<'_>, now: Timestamp) -> bool {
        let is_ours = self.told.as_ref().is_some_and(|told| told.by.is_none());
        // Who has told it goes on with it: the others may never have heard of it.
        let is_others = self.finding.is_shared && !is_ours;
        let other = speakers.other().filter(|_| is_others);
        self.is_due = false;
        self.told = Some(Told {
            at: now,
            by: other.map(str::to_owned),
        });
        other.is_none()
    }

    fn state(&self, is_silenced: bool) -> AlertState {
        match (is_silenced, self.fired_at) {
            (true, _) => AlertState::Silenced,
            (false, None) => AlertState::Pending,
            (false, Some(_)) => AlertState::Firing,
        }
    }
}
