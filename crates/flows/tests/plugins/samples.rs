//! What the contract suite feeds to each plug-in. A plug-in without a line here fails the suite.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock};

use broker::{Broker, Settings, SystemClock};
use bus::engines::EmbeddedBus;
use flows::plugins::Environment;
use journal::{Options, testing::MemoryStorage};
use serde_json::{Value, json};

static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("plugins");
    let _ = std::fs::remove_dir_all(&folder);
    folder
});

/// An environment with a folder of its own.
pub fn environment() -> Environment {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let folder = FOLDER.join(number.to_string());
    let input = folder.join("input");
    std::fs::create_dir_all(&input).unwrap();
    let words: String = (0..2_000).map(|n| format!("line {n}\n")).collect();
    std::fs::write(input.join("words.txt"), words).unwrap();
    let clicks: String = (0..700).map(|n| format!("{{\"n\":{n}}}\n")).collect();
    std::fs::write(input.join("clicks.jsonl"), clicks).unwrap();
    std::fs::write(input.join("customers.csv"), "id,name\n1,Ada\n2,Bob\n").unwrap();
    Environment {
        folder: Some(folder),
        ..Environment::default()
    }
}

/// An environment with a bus.
pub fn environment_with_bus() -> Environment {
    let storage = Arc::new(MemoryStorage::new(1));
    let (broker, _) = Broker::start(
        storage,
        Options::default(),
        Settings::default(),
        Arc::new(SystemClock),
    )
    .unwrap();
    Environment {
        bus: Some(Arc::new(EmbeddedBus::new(broker))),
        ..environment()
    }
}

/// Events that fit all examples of a processor.
pub fn events(id: &str, count: u64) -> Option<Vec<Value>> {
    let event = |n: u64| {
        Some(match id {
            "map" | "answer" => json!({ "id": n, "price": n * 3, "count": 2 }),
            "filter" | "split" => {
                json!({ "id": n, "total": n as i64 * 100 - 200, "customer": "c" })
            }
            "flat-map" => json!({ "text": format!("One two {n}, three!") }),
            "merge" | "to-queue" | "to-topic" => json!({ "n": n }),
            "key-by" => json!({ "country": "de", "city": format!("c{}", n % 7) }),
            "to-file" => json!({ "key": format!("k{n}"), "count": n }),
            "aggregate" => {
                json!({ "word": format!("w{}", n % 5), "shop": n % 3, "price": n, "customer": n % 11, "article": n % 13 })
            }
            "window" => {
                json!({ "at": 1_000_000 + n * 7_001 - (n % 3) * 4_000, "sensor": n % 4, "user": n % 4, "celsius": n as f64 / 2.0, "page": n % 9, "article": n % 5 })
            }
            "deduplicate" => json!({ "id": n % 17, "at": 1_000_000 + n * 1_000 }),
            "throttle" => json!({ "user": n % 3, "n": n }),
            "prioritise" => json!({ "urgency": n * 7 % 10, "n": n }),
            "batch" => json!({ "n": n }),
            "enrich" => json!({ "customer": n % 4, "n": n }),
            "join" => {
                json!({ "kind": if n.is_multiple_of(2) { "order" } else { "payment" }, "order": n / 3, "at": 1_000_000 + n * 1_000 })
            }
            "to-sqlite" => {
                json!({ "sensor": format!("s{}", n % 4), "celsius": n as f64 / 2.0, "at": n })
            }
            "to-prometheus" => json!({ "shop": format!("s{}", n % 3), "price": n as f64 }),
            _ => return None,
        })
    };
    (0..count).map(event).collect()
}
