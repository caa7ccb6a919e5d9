//! What is under way: a URL that the frontier handed out, until everything that was made of it is dealt with.
//!
//! A [`Visit`] is [held](flows::Hold) by the request event and by every event that is made because of it: the page, its links, what
//! was refused. When the last of them is gone the visit is dropped, and with that its frontier hears of it. Before that the frontier
//! keeps the URL on disk, so a node that dies in between loses nothing.

use std::sync::Arc;
use std::time::Duration;

use flows::{Event, Hold};
use parking_lot::Mutex;

/// What came of a request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// How long the server took.
    pub took: Duration,
    /// The status of the answer; none if there was no answer.
    pub status: Option<u16>,
    /// How long the server wants to be left alone.
    pub retry_after: Option<Duration>,
    /// Whether the request is to be repeated later.
    pub retry: bool,
    /// Why it failed, for people; empty if it did not.
    pub reason: String,
}

/// What is known of a visit that has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Ended {
    /// What the frontier called it.
    pub id: u64,
    /// What came of the request; none if none was made, because something refused it before.
    pub outcome: Option<Outcome>,
    /// The delay that robots.txt of the host asks for, if somebody looked.
    pub crawl_delay: Option<Duration>,
    /// Whether the request is to be made later, because there was no time for it now: how much later.
    pub put_off: Option<Duration>,
}

/// Who is told when a visit has ended.
pub trait Endings: Send + Sync {
    /// This one has.
    fn ended(&self, ended: Ended);
}

/// A URL that the frontier handed out.
pub struct Visit {
    id: u64,
    is_last_try: bool,
    noted: Mutex<Noted>,
    endings: Arc<dyn Endings>,
}

#[derive(Default)]
struct Noted {
    outcome: Option<Outcome>,
    crawl_delay: Option<Duration>,
    put_off: Option<Duration>,
}

impl Visit {
    /// A visit that begins. On its last try a request that fails is not repeated.
    pub fn begin(id: u64, is_last_try: bool, endings: Arc<dyn Endings>) -> Arc<Self> {
        Arc::new(Self {
            id,
            is_last_try,
            noted: Mutex::default(),
            endings,
        })
    }

    /// The visit that an event is part of.
    pub fn of(event: &Event) -> Option<Arc<Self>> {
        event.hold().and_then(Hold::get)
    }

    /// Whether a request that fails now is not repeated.
    pub fn is_last_try(&self) -> bool {
        self.is_last_try
    }

    /// Notes what came of the request.
    pub fn report(&self, outcome: Outcome) {
        self.noted.lock().outcome = Some(outcome);
    }

    /// Notes that no request was made, and that it is to be made after this time. It is no try.
    pub fn put_off(&self, wait: Duration) {
        self.noted.lock().put_off = Some(wait);
    }

    /// Notes what robots.txt asks for.
    pub fn note_crawl_delay(&self, delay: Duration) {
        self.noted.lock().crawl_delay = Some(delay);
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        let noted = std::mem::take(self.noted.get_mut());
        self.endings.ended(Ended {
            id: self.id,
            outcome: noted.outcome,
            crawl_delay: noted.crawl_delay,
            put_off: noted.put_off,
        });
    }
}

#[cfg(test)]
mod tests {
    use flows::Data;

    use super::*;

    #[derive(Default)]
    struct Heard(Mutex<Vec<Ended>>);

    impl Endings for Heard {
        fn ended(&self, ended: Ended) {
            self.0.lock().push(ended);
        }
    }

    #[test]
    fn a_visit_ends_with_the_last_event_that_was_made_because_of_it() {
        let heard = Arc::new(Heard::default());
        let visit = Visit::begin(7, false, heard.clone());
        let request = Event::new(Data::from("request")).held_by(Hold::new(visit));
        let page = Event::new(Data::from("page")).held_like(&request);
        Visit::of(&request).unwrap().report(Outcome {
            status: Some(200),
            ..Outcome::default()
        });
        drop(request);
        let links = Event::new(Data::from("links")).held_like(&page);
        drop(page);
        assert!(heard.0.lock().is_empty(), "its links are not dealt with");
        drop(links);
        let ended = heard.0.lock().pop().unwrap();
        assert_eq!((ended.id, ended.outcome.unwrap().status), (7, Some(200)));
        let alone = Event::new(Data::from("alone"));
        assert!(Visit::of(&alone.clone().held_like(&alone)).is_none());
    }
}
