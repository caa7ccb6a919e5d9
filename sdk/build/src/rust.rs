//! Rust workers: which toolchain compiles them, and how.
//!
//! 1. The toolchain of the project (`rustc` in the search path) if it has the target
//!    `wasm32-unknown-unknown`: `rustup target add wasm32-unknown-unknown` adds it.
//! 2. Else any toolchain, that of the project first and that of the system in `/usr/bin` second,
//!    that has the source of the standard library, which is then compiled along. On Debian these
//!    are the packages `rustc-web`, `cargo-web`, `rust-web-src` and `lld-19`; with rustup the
//!    component `rust-src`. The switch for this is kept for the compiler's own use, therefore
//!    `RUSTC_BOOTSTRAP=1`.
//! 3. Else an error that says what to install.
//!
//! The environment of the caller reaches cargo but for what would change the component, such as
//! `RUSTFLAGS`.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::project::Project;
use crate::{BuildError, tool};

/// The target of components.
pub const TARGET: &str = "wasm32-unknown-unknown";

/// Linkers for the target, by their names on various systems.
const LINKERS: [&str; 7] = [
    "wasm-ld-19",
    "wasm-ld",
    "wasm-ld-22",
    "wasm-ld-21",
    "wasm-ld-20",
    "wasm-ld-18",
    "rust-lld",
];

/// Variables of cargo that say how it reaches the network and where it keeps its files. All others
/// would change what is built.
const CARGO_VARIABLES_KEPT: [&str; 5] = [
    "CARGO_HOME",
    "CARGO_HTTP_",
    "CARGO_NET_",
    "CARGO_REGISTR",
    "CARGO_TERM_",
];

/// A compiler that can make components.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Toolchain {
    rustc: PathBuf,
    cargo: PathBuf,
    /// The standard library has to be compiled along.
    from_source: bool,
    /// The linker, if the toolchain brings none.
    linker: Option<PathBuf>,
}

impl Toolchain {
    /// The toolchain for a project in this folder.
    pub fn find(folder: &Path) -> Result<Self, BuildError> {
        let candidates: Vec<Candidate> = [tool::find("rustc"), Some("/usr/bin/rustc".into())]
            .into_iter()
            .flatten()
            .filter_map(|rustc| Candidate::look_at(rustc, folder))
            .collect();
        candidates
            .iter()
            .find_map(Candidate::with_target)
            .or_else(|| candidates.iter().find_map(Candidate::with_source))
            .ok_or_else(|| BuildError::Missing {
                what: format!("the Rust target {TARGET}"),
                remedy: "run `rustup target add wasm32-unknown-unknown`; on Debian without rustup \
                         `apt-get install rustc-web cargo-web rust-web-src lld-19`"
                    .to_owned(),
            })
    }

    /// A call of cargo that builds everything in a folder for the target.
    fn cargo_build(&self, target_folder: &Path) -> Command {
        let mut command = Command::new(&self.cargo);
        for (name, _) in env::vars_os() {
            if name.to_str().is_some_and(changes_what_is_built) {
                command.env_remove(&name);
            }
        }
        command
            .env("RUSTC", &self.rustc)
            .args(["build", "--release", "--target", TARGET, "--target-dir"])
            .arg(target_folder);
        if let Some(linker) = &self.linker {
            command.env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER", linker);
        }
        if self.from_source {
            command
                .env("RUSTC_BOOTSTRAP", "1")
                .args(["-Z", "build-std=std,panic_abort"]);
        }
        command
    }
}

fn changes_what_is_built(variable: &str) -> bool {
    let is_kept = |prefix: &&str| variable.starts_with(*prefix);
    match variable.starts_with("CARGO") {
        true => !CARGO_VARIABLES_KEPT.iter().any(is_kept),
        false => variable.starts_with("RUSTC") || variable == "RUSTFLAGS",
    }
}

/// A compiler that is there, and its folder.
struct Candidate {
    rustc: PathBuf,
    cargo: PathBuf,
    sysroot: PathBuf,
}

impl Candidate {
    fn look_at(rustc: PathBuf, folder: &Path) -> Option<Self> {
        let sysroot = tool::ask(&rustc, &["--print", "sysroot"], folder)?.into();
        // They belong together and lie together, with rustup as well as in packages.
        let cargo = rustc.with_file_name("cargo");
        cargo.is_file().then_some(Self {
            rustc,
            cargo,
            sysroot,
        })
    }

    fn with_target(&self) -> Option<Toolchain> {
        let library = self.sysroot.join("lib/rustlib").join(TARGET).join("lib");
        library.is_dir().then(|| self.toolchain(false))
    }

    fn with_source(&self) -> Option<Toolchain> {
        let source = self.sysroot.join("lib/rustlib/src/rust/library/Cargo.toml");
        let toolchain = self.toolchain(true);
        let can_link = toolchain.linker.is_some() || self.brings_linker();
        (source.is_file() && can_link).then_some(toolchain)
    }

    fn toolchain(&self, from_source: bool) -> Toolchain {
        let linker = match self.brings_linker() {
            true => None,
            false => LINKERS.iter().find_map(|name| tool::find(name)),
        };
        Toolchain {
            rustc: self.rustc.clone(),
            cargo: self.cargo.clone(),
            from_source,
            linker,
        }
    }

    fn brings_linker(&self) -> bool {
        let hosts = fs::read_dir(self.sysroot.join("lib/rustlib"));
        hosts
            .into_iter()
            .flatten()
            .flatten()
            .any(|host| host.path().join("bin/rust-lld").is_file())
    }
}

/// Compiles a project; gives the core module.
pub(crate) fn build_module(project: &Project) -> Result<Vec<u8>, BuildError> {
    let target_folder = project.folder.join("target");
    let crate_name = crate_name(&project.folder)?;
    compile(&project.folder, &target_folder)?;
    read_module(&target_folder, &crate_name)
}

/// Compiles everything in a folder.
pub(crate) fn compile(folder: &Path, target_folder: &Path) -> Result<(), BuildError> {
    let toolchain = Toolchain::find(folder)?;
    tool::run("cargo", &mut toolchain.cargo_build(target_folder), folder)
}

/// Reads what was compiled of a crate.
pub(crate) fn read_module(target_folder: &Path, crate_name: &str) -> Result<Vec<u8>, BuildError> {
    let module = target_folder
        .join(TARGET)
        .join("release")
        .join(format!("{}.wasm", crate_name.replace('-', "_")));
    match module.is_file() {
        true => fs::read(&module).map_err(|source| BuildError::file("read", &module, source)),
        false => Err(BuildError::NotAWorker {
            reason: format!(
                "the crate {crate_name} gave no module; its Cargo.toml needs `[lib] crate-type = [\"cdylib\"]`"
            ),
        }),
    }
}

/// The name of the library in a folder.
pub(crate) fn crate_name(folder: &Path) -> Result<String, BuildError> {
    let path = folder.join("Cargo.toml");
    let text =
        fs::read_to_string(&path).map_err(|source| BuildError::file("read", &path, source))?;
    let manifest: toml::Table = toml::from_str(&text).map_err(|error| BuildError::Project {
        path: path.clone(),
        reason: error.to_string(),
    })?;
    let name = |table: &str| Some(manifest.get(table)?.get("name")?.as_str()?.to_owned());
    name("lib")
        .or_else(|| name("package"))
        .ok_or(BuildError::Project {
            path,
            reason: "it names no package".to_owned(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changes_a_build_is_kept_away_from_cargo() {
        for variable in ["RUSTFLAGS", "CARGO_TARGET_DIR", "RUSTC_WRAPPER", "CARGO"] {
            assert!(changes_what_is_built(variable), "{variable}");
        }
        for variable in ["PATH", "CARGO_HOME", "CARGO_NET_OFFLINE", "RUSTUP_HOME"] {
            assert!(!changes_what_is_built(variable), "{variable}");
        }
    }

    #[test]
    fn a_library_may_have_a_name_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let manifest = folder.path().join("Cargo.toml");
        fs::write(&manifest, "[package]\nname = \"a-b\"").unwrap();
        assert_eq!(crate_name(folder.path()).unwrap(), "a-b");
        fs::write(&manifest, "[package]\nname = \"a\"\n[lib]\nname = \"c\"").unwrap();
        assert_eq!(crate_name(folder.path()).unwrap(), "c");
    }
}
