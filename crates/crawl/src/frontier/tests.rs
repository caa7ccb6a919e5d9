//! Frontiers from seeds: URLs come, are handed out and end in any order, some are to be repeated, and owners change at any time.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::visit::Outcome;

/// What is on disk.
#[derive(Clone, Default)]
struct Disk(BTreeMap<Vec<u8>, Vec<u8>>);

impl Disk {
    fn write(&mut self, writes: BTreeMap<Vec<u8>, Option<Vec<u8>>>) {
        for (key, value) in writes {
            match value {
                Some(value) => self.0.insert(key, value),
                None => self.0.remove(&key),
            };
        }
    }

    fn load(&self, rules: &Rules, now_ms: u64) -> Bucket {
        let mut bucket = Bucket::new(0, 0);
        for (key, record) in self.0.range(vec![HOST]..vec![HOST + 1]) {
            let record = HostRecord::decode(record).unwrap();
            let host = str::from_utf8(&key[1..]).unwrap();
            if record.waiting > 0 {
                bucket.load_host(host, Some(record), rules, now_ms);
            }
        }
        bucket
    }

    fn add(&self, bucket: &mut Bucket, host: &str, url: &str, rules: &Rules, now_ms: u64) -> bool {
        if !bucket.has_host(host) {
            let record = self.0.get(&host_key(host));
            let record = record.map(|record| HostRecord::decode(record).unwrap());
            bucket.load_host(host, record, rules, now_ms);
        }
        let from: Arc<str> = "".into();
        let new = New {
            url,
            host,
            depth: 1,
            from: &from,
            redirects: 0,
        };
        bucket.add(&new, rules)
    }

    fn hand_out(
        &self,
        bucket: &mut Bucket,
        rules: &Rules,
        now_ms: u64,
        most: usize,
    ) -> Vec<Request> {
        let mut requests = Vec::new();
        for _ in 0..1_000 {
            let left = most - requests.len();
            requests.append(&mut bucket.hand_out(rules, now_ms, left));
            let wanted = bucket.wanted(now_ms, left);
            if wanted.is_empty() || requests.len() >= most {
                return requests;
            }
            for (host, number) in wanted {
                let [block, done] = block_keys(&host, number);
                let get = |key: &Vec<u8>| self.0.get(key).map(Vec::as_slice);
                assert!(bucket.supply(&host, number, get(&block), get(&done)));
            }
        }
        panic!("it asks for blocks for ever");
    }
}

fn rules(pace: PaceRule) -> Rules {
    Rules {
        pace,
        under_way_max: 64,
        tries_max: 3,
        retry_after: Duration::from_millis(50),
        pages_per_host_max: 1_000,
        bucket_bytes_max: 256 << 10,
    }
}

/// What happens in one turn.
#[derive(Clone, Debug)]
enum Step {
    Add {
        host: u8,
        count: u8,
    },
    End {
        which: u16,
        retry: bool,
    },
    PutOff {
        which: u16,
    },
    HandOut {
        most: u8,
    },
    Wait {
        ms: u8,
    },
    /// A new owner reads what is on disk.
    Crash,
    /// Commits are made after every turn; this one is lost with its owner.
    CrashBeforeCommit,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0_u8..5, 1_u8..40).prop_map(|(host, count)| Step::Add { host, count }),
        8 => (any::<u16>(), proptest::bool::weighted(0.2)).prop_map(|(which, retry)| Step::End { which, retry }),
        1 => any::<u16>().prop_map(|which| Step::PutOff { which }),
        6 => (1_u8..20).prop_map(|most| Step::HandOut { most }),
        3 => any::<u8>().prop_map(|ms| Step::Wait { ms }),
        1 => Just(Step::Crash),
        1 => Just(Step::CrashBeforeCommit),
    ]
}

struct World {
    rules: Rules,
    disk: Disk,
    bucket: Bucket,
    now_ms: u64,
    under_way: Vec<Request>,
    came: BTreeSet<String>,
    done: HashMap<String, u32>,
    /// URLs that were under way when an owner was lost: these may be done twice.
    doubtful: BTreeSet<String>,
}

impl World {
    fn new(rules: Rules) -> Self {
        Self {
            bucket: Bucket::new(0, 0),
            disk: Disk::default(),
            now_ms: 1_000_000,
            under_way: Vec::new(),
            came: BTreeSet::new(),
            done: HashMap::new(),
            doubtful: BTreeSet::new(),
            rules,
        }
    }

    fn commit(&mut self) {
        let writes = self.bucket.writes(&self.rules, self.now_ms);
        self.disk.write(writes);
        self.bucket.shrink(&self.rules);
    }

    fn crash(&mut self) {
        let lost = self
            .under_way
            .drain(..)
            .map(|request| request.url.into_string());
        self.doubtful.extend(lost);
        self.bucket = self.disk.load(&self.rules, self.now_ms);
    }

    fn hand_out(&mut self, most: usize) {
        let room = self.rules.under_way_max - self.under_way.len();
        let most = most.min(room);
        let mut requests = self
            .disk
            .hand_out(&mut self.bucket, &self.rules, self.now_ms, most);
        self.under_way.append(&mut requests);
    }

    fn end(&mut self, at: usize, retry: bool) {
        let request = self.under_way.swap_remove(at);
        let retry = retry && !request.is_last_try;
        let ended = Ended {
            id: request.id,
            outcome: Some(Outcome {
                took: Duration::from_millis(3),
                status: (!retry).then_some(200),
                retry,
                ..Outcome::default()
            }),
            crawl_delay: None,
            put_off: None,
        };
        self.bucket.ended(&ended, &self.rules, self.now_ms);
        if !retry {
            *self.done.entry(request.url.into_string()).or_default() += 1;
        }
    }

    /// Nobody was asked, so it comes again with as many tries.
    fn put_off(&mut self, at: usize) {
        let request = self.under_way.swap_remove(at);
        let ended = Ended {
            id: request.id,
            outcome: None,
            crawl_delay: None,
            put_off: Some(Duration::from_millis(40)),
        };
        self.bucket.ended(&ended, &self.rules, self.now_ms);
    }

    fn step(&mut self, step: Step, number: usize) {
        match step {
            Step::Add { host, count } => {
                for at in 0..count {
                    let host = format!("host{host}");
                    let url = format!("http://{host}/{number}/{at}");
                    let (disk, bucket) = (&self.disk, &mut self.bucket);
                    assert!(disk.add(bucket, &host, &url, &self.rules, self.now_ms));
                    self.came.insert(url);
                }
            }
            Step::End { which, retry } if !self.under_way.is_empty() => {
                self.end(usize::from(which) % self.under_way.len(), retry);
            }
            Step::PutOff { which } if !self.under_way.is_empty() => {
                self.put_off(usize::from(which) % self.under_way.len());
            }
            Step::End { .. } | Step::PutOff { .. } => {}
            Step::HandOut { most } => self.hand_out(most.into()),
            Step::Wait { ms } => self.now_ms += u64::from(ms),
            Step::Crash => self.crash(),
            Step::CrashBeforeCommit => {
                // What ended in this turn ends again for the next owner.
                let ended: Vec<_> = (0..self.under_way.len().min(3)).collect();
                for _ in ended {
                    self.doubtful.insert(self.under_way[0].url.to_string());
                    self.end(0, false);
                }
                self.crash();
            }
        }
        self.commit();
    }

    /// Goes on until nothing waits.
    fn finish(&mut self) {
        for _ in 0..100_000 {
            if self.bucket.is_empty() {
                return;
            }
            self.hand_out(64);
            self.commit();
            while !self.under_way.is_empty() {
                self.end(0, false);
            }
            self.commit();
            let due = self.bucket.next_due().unwrap_or(self.now_ms);
            self.now_ms = self.now_ms.max(due);
        }
        panic!(
            "{} URLs are never handed out",
            self.bucket.numbers().waiting
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_url_is_done_and_twice_only_if_its_owner_was_lost(
        steps in proptest::collection::vec(step(), 1..120),
        is_unlimited in any::<bool>(),
        bucket_bytes_max in prop_oneof![Just(0), 0_usize..20_000, Just(256 << 10)],
    ) {
        let pace = if is_unlimited { PaceRule::unlimited() } else { PaceRule::default().with_connections(3) };
        let mut world = World::new(Rules { bucket_bytes_max, ..rules(pace) });
        for (number, step) in steps.into_iter().enumerate() {
            world.step(step, number);
        }
        world.finish();
        for url in &world.came {
            let times = world.done.get(url).copied().unwrap_or(0);
            prop_assert!(times >= 1, "{url} was never done");
            prop_assert!(times == 1 || world.doubtful.contains(url), "{url} was done {times} times");
        }
        let blocks = world.disk.0.keys().filter(|key| key[0] != HOST).count();
        prop_assert_eq!(blocks, 0, "what is done is gone from disk");
    }
}

#[test]
fn a_large_frontier_is_read_back_in_order_and_a_host_does_not_take_all_the_room() {
    let mut world = World::new(Rules {
        pages_per_host_max: 100_000,
        ..rules(PaceRule::unlimited())
    });
    for number in 0..300 {
        for at in 0..100 {
            let url = format!("http://large/{number}/{at}");
            assert!(
                world
                    .disk
                    .add(&mut world.bucket, "large", &url, &world.rules, 0)
            );
        }
        world.commit();
    }
    world.crash();
    assert_eq!(world.bucket.numbers().waiting, 30_000);
    assert!(
        world
            .disk
            .add(&mut world.bucket, "small", "http://small/", &world.rules, 0)
    );
    world.commit();
    // Of hosts that nobody has asked yet, one each.
    world.hand_out(64);
    let urls: Vec<&str> = world
        .under_way
        .iter()
        .map(|request| &*request.url)
        .collect();
    assert_eq!(urls, ["http://small/", "http://large/0/0"]);
    world.end(1, false);
    world.hand_out(64);
    let large: Vec<_> = world
        .under_way
        .iter()
        .filter(|r| &*r.host == "large")
        .collect();
    assert_eq!(large.len(), 63);
    assert_eq!(&*large[0].url, "http://large/0/1");
    assert_eq!(&*large[62].url, "http://large/0/63");
    world.finish();
    assert_eq!(world.done.len(), 30_001);
}

#[test]
fn beyond_its_budget_a_host_gets_nothing() {
    let mut world = World::new(Rules {
        pages_per_host_max: 2,
        ..rules(PaceRule::unlimited())
    });
    let mut add = |url: &str| {
        world
            .disk
            .add(&mut world.bucket, "host", url, &world.rules, 0)
    };
    assert!(add("http://host/1") && add("http://host/2"));
    assert!(!add("http://host/3"));
}

#[test]
fn what_waits_for_many_hosts_does_not_stay_in_memory() {
    let mut world = World::new(Rules {
        bucket_bytes_max: 64 << 10,
        ..rules(PaceRule::default())
    });
    for host in 0..200 {
        let host = format!("host{host}");
        for at in 0..100 {
            let url = format!("http://{host}/{at}");
            let (disk, bucket) = (&world.disk, &mut world.bucket);
            assert!(disk.add(bucket, &host, &url, &world.rules, 0));
        }
        world.commit();
        world.hand_out(1);
        world.commit();
        assert!(world.bucket.bytes <= (64 << 10) + 64 * 100 * 128);
    }
    while !world.under_way.is_empty() {
        world.end(0, false);
    }
    world.commit();
    assert!(world.bucket.bytes <= 64 << 10, "{}", world.bucket.bytes);
    assert_eq!(world.bucket.numbers().waiting, 200 * 100 - 64);
    world.finish();
    assert_eq!((world.bucket.bytes, world.done.len()), (0, 200 * 100));
}
