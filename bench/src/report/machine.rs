//! What the figures were taken on.

use std::path::{Path, PathBuf};

use crate::peers::hivewire::Hivewire;
use crate::peers::nats::Nats;
use crate::peers::rabbitmq::RabbitMq;
use crate::peers::{self, DATA_ROOT_VARIABLE};

const LOCK_FILE: &str = include_str!("../../../Cargo.lock");

/// The machine and the versions of the systems, in words.
#[derive(Debug, Clone)]
pub struct Machine {
    /// A name and a value each.
    pub facts: Vec<(&'static str, String)>,
}

impl Machine {
    /// Looks at this machine. What cannot be found out is called unknown.
    pub fn inspect() -> Self {
        let cores = std::thread::available_parallelism().map(|cores| cores.to_string());
        Self {
            facts: vec![
                ("cores", cores.unwrap_or_else(|_| unknown())),
                ("CPU", field("/proc/cpuinfo", "model name")),
                ("memory", memory()),
                ("kernel", read("/proc/sys/kernel/osrelease")),
                ("file system of the data", file_system()),
                ("Hivewire", version(Hivewire::version())),
                ("RabbitMQ", version(RabbitMq::version())),
                ("NATS", version(Nats::version())),
                ("ractor", locked_version("ractor")),
                ("kameo", locked_version("kameo")),
                ("timely", locked_version("timely")),
            ],
        }
    }
}

fn unknown() -> String {
    "unknown".to_owned()
}

fn version(found: peers::Result<String>) -> String {
    found.unwrap_or_else(|_| "not installed".to_owned())
}

/// The version of a library that this program is linked with.
fn locked_version(library: &str) -> String {
    let name = format!("name = \"{library}\"\nversion = \"");
    let after = LOCK_FILE.split_once(&name).map(|(_, after)| after);
    let version = after.and_then(|after| after.split_once('"'));
    version.map_or_else(unknown, |(version, _)| version.to_owned())
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).map_or_else(|_| unknown(), |text| text.trim().to_owned())
}

/// The value of the first line `name : value`.
fn field(path: &str, name: &str) -> String {
    let text = read(path);
    let line = text.lines().find(|line| line.starts_with(name));
    line.and_then(|line| line.split_once(':'))
        .map_or_else(unknown, |(_, value)| value.trim().to_owned())
}

fn memory() -> String {
    let total = field("/proc/meminfo", "MemTotal");
    let kibibytes = total.split(' ').next().and_then(|word| word.parse().ok());
    kibibytes.map_or_else(unknown, |kibibytes: f64| {
        format!("{:.0} GiB", kibibytes / 1024.0 / 1024.0)
    })
}

/// The kind of file system under the peers' data: durable figures mean nothing on tmpfs.
fn file_system() -> String {
    let root = std::env::var_os(DATA_ROOT_VARIABLE)
        .map(PathBuf::from)
        .unwrap_or_else(std::env::temp_dir);
    let mounts = read("/proc/self/mounts");
    mount_of(&mounts, &root).unwrap_or_else(unknown)
}

/// The kind of the mount with the longest path that holds `path`.
fn mount_of(mounts: &str, path: &Path) -> Option<String> {
    mounts
        .lines()
        .filter_map(|line| {
            let mut words = line.split(' ').skip(1);
            Some((words.next()?, words.next()?))
        })
        .filter(|(place, _)| path.starts_with(place))
        .max_by_key(|(place, _)| place.len())
        .map(|(_, kind)| kind.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_mount_counts() {
        let mounts = "/dev/vda / ext4 rw 0 0\ntmpfs /tmp tmpfs rw 0 0\n";
        let kind = |path| mount_of(mounts, Path::new(path));
        assert_eq!(kind("/tmp/x").as_deref(), Some("tmpfs"));
        assert_eq!(kind("/tmpx").as_deref(), Some("ext4"));
    }

    #[test]
    fn libraries_have_versions() {
        assert!(locked_version("ractor").starts_with("0."));
        assert_eq!(locked_version("no-such-library"), "unknown");
    }

    #[test]
    fn this_machine_has_cores_and_a_kernel() {
        let facts = Machine::inspect().facts;
        let known = |name| {
            facts
                .iter()
                .any(|(key, value)| *key == name && value != "unknown")
        };
        assert!(known("cores") && known("kernel") && known("memory"));
    }
}
