//! Why a component is refused, or a host cannot start.

use std::path::PathBuf;

use kernel::descriptor::DescriptorError;

/// Why the host of components cannot start.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// wasmtime refuses the settings, or the operating system the address space.
    #[error("cannot set up WebAssembly for {instances} instances: {reason}; lower instances_max")]
    Engine {
        /// How many instances were asked for.
        instances: u32,
        /// What wasmtime says.
        reason: String,
    },
    /// The folder for compiled code cannot be used.
    #[error("cannot keep compiled code in {}: {reason}", folder.display())]
    Cache {
        /// The folder.
        folder: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// No thread could be started.
    #[error("cannot start a thread: {0}")]
    Thread(#[from] std::io::Error),
}

/// Why a component is refused.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file is too large.
    #[error("the component has {bytes} bytes, and at most {bytes_max} are allowed")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// What is allowed.
        bytes_max: usize,
    },
    /// The file is no WebAssembly at all.
    #[error(
        "this is not a WebAssembly component: it begins with {begins}; deploy the file that `hivewire build` made"
    )]
    NotWebAssembly {
        /// The first bytes.
        begins: String,
    },
    /// It is a core module.
    #[error(
        "this is a core WebAssembly module, not a component: make a component of it with `hivewire build`"
    )]
    CoreModule,
    /// It is native code.
    #[error(
        "this is precompiled or native code, which is not accepted: deploy the component itself"
    )]
    Precompiled,
    /// It does not follow the format.
    #[error("the component is damaged at byte {offset}: {reason}")]
    Malformed {
        /// Where.
        offset: usize,
        /// What is wrong.
        reason: String,
    },
    /// It has too many parts of a kind.
    #[error("the component has {count} {what}, and at most {count_max} are allowed")]
    TooMany {
        /// Of which kind.
        what: &'static str,
        /// How many.
        count: u64,
        /// What is allowed.
        count_max: u64,
    },
    /// It imports what this host does not offer.
    #[error("the component wants what it cannot have: {}", imports.join("; "))]
    Imports {
        /// Each import with the reason.
        imports: Vec<String>,
    },
    /// It does not export what the world asks for.
    #[error("the component is not made for {world}: {reason}")]
    Exports {
        /// The world.
        world: &'static str,
        /// What is missing, and what it may be instead.
        reason: String,
    },
    /// An import or export has another type than in the world.
    #[error("the component does not fit {world}: {reason}; build it with a matching SDK")]
    Types {
        /// The world.
        world: &'static str,
        /// Which one and how.
        reason: String,
    },
    /// What it says about itself cannot be read.
    #[error(transparent)]
    Descriptor(#[from] DescriptorError),
    /// It cannot be compiled.
    #[error("the component cannot be compiled: {reason}")]
    Compile {
        /// What wasmtime says.
        reason: String,
    },
    /// Compilation takes too long.
    #[error(
        "the component was not compiled within {ms_max} ms: make it smaller, or raise compile_ms_max"
    )]
    CompileTimeout {
        /// What is allowed.
        ms_max: u64,
    },
    /// Too many compilations are under way.
    #[error("{count} other components are being compiled: try again later")]
    CompileBusy {
        /// How many.
        count: usize,
    },
    /// A first instance could not be made.
    #[error("no instance of the component can be made: {reason}")]
    Instance {
        /// Why.
        reason: String,
    },
    /// No thread could be started.
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
}
