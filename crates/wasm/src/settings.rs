//! What a host of components may use up.

use std::path::PathBuf;

use kernel::worker::InstanceLimits;
use serde::{Deserialize, Serialize};

/// What a host of components may use up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Instances that may be in memory at once: so many of components with little data, and as many
    /// of others.
    pub instances_max: u32,
    /// Memory that any one instance can be given, whatever its own limit says.
    pub memory_bytes_max: usize,
    /// Reserve for each instance only the addresses it may use, not 4 GiB. That makes room for
    /// 100,000 instances, and code somewhat slower because it checks every access.
    pub dense: bool,
    /// Stack that the code of a worker may use. It is part of the stack of the thread that calls.
    pub stack_bytes_max: usize,
    /// Elements that one table of a component may have.
    pub table_elements_max: usize,
    /// Size of a component.
    pub component_bytes_max: usize,
    /// Functions in a component.
    pub functions_max: u32,
    /// Core modules in a component.
    pub modules_max: u32,
    /// Memories in a component.
    pub memories_max: u32,
    /// Tables in a component.
    pub tables_max: u32,
    /// Bytes of data in a component.
    pub data_bytes_max: usize,
    /// How long a compilation may take.
    pub compile_ms_max: u64,
    /// Compilations at once.
    pub compiles_max: usize,
    /// Where compiled code is kept for the next start; nowhere if there is none. It must belong to
    /// the user that this process runs as, and nobody else may write there: what is found in it is
    /// run as native code.
    pub cache_folder: Option<PathBuf>,
    /// What a router may use up for one choice.
    pub router: InstanceLimits,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            instances_max: 4_000,
            memory_bytes_max: 256 << 20,
            dense: false,
            stack_bytes_max: 1 << 20,
            table_elements_max: 100_000,
            component_bytes_max: 64 << 20,
            functions_max: 200_000,
            modules_max: 64,
            memories_max: 4,
            tables_max: 32,
            data_bytes_max: 64 << 20,
            compile_ms_max: 300_000,
            compiles_max: 2,
            cache_folder: None,
            router: InstanceLimits {
                call_ms_max: 100,
                ..InstanceLimits::default()
            },
        }
    }
}

impl Settings {
    /// Settings for very many instances with small memories.
    pub fn dense() -> Self {
        Self {
            instances_max: 100_000,
            memory_bytes_max: 16 << 20,
            dense: true,
            ..Self::default()
        }
    }
}
