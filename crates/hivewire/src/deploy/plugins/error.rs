//! Why a plug-in was not taken in, found, given out or removed.

use kernel::descriptor::DescriptorError;
use kernel::{PluginId, PluginIdError, StageAddress};
use semver::Version;
use wasm::LoadError;

use super::plugin::PluginRef;
use crate::deploy::source::SourceError;
use crate::deploy::store::StoreError;

/// Why a plug-in was not taken in, found, given out or removed.
#[derive(Debug, thiserror::Error)]
pub enum PluginError {
    /// It cannot be called so.
    #[error(transparent)]
    Id(#[from] PluginIdError),
    /// It cannot be numbered so.
    #[error(
        "{text:?} is no version ({reason}): write three numbers with dots between, such as 1.2.0"
    )]
    Version {
        /// The text.
        text: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The component is none, or does not fit.
    #[error(transparent)]
    Component(LoadError),
    /// What it says about itself cannot be read.
    #[error(transparent)]
    Descriptor(#[from] DescriptorError),
    /// It says nothing about itself.
    #[error(
        "the component does not say what it is: build it with `hivewire build`, or name its id and version"
    )]
    NoDescriptor,
    /// It says that it is something else.
    #[error(
        "the component says that its {what} is {says}, not {named}: push it as that, or change {file} and build it again",
        file = build::PROJECT_FILE
    )]
    Says {
        /// `id` or `version`.
        what: &'static str,
        /// What stands in it.
        says: String,
        /// What was named.
        named: String,
    },
    /// Something else in its descriptor is wrong.
    #[error("in the descriptor of the component, {0}")]
    Unfit(String),
    /// The version is there with other bytes.
    #[error(
        "{id}@{version} is there already with other bytes ({digest}): a version does not change, so push it under another one"
    )]
    Taken {
        /// The plug-in.
        id: PluginId,
        /// The version.
        version: Version,
        /// The digest of what is there.
        digest: String,
    },
    /// Too many versions.
    #[error(
        "{id} has {versions_max} versions, and no more are kept: remove one, or raise `plugins.versions_max`"
    )]
    Full {
        /// The plug-in.
        id: PluginId,
        /// How many there may be.
        versions_max: usize,
    },
    /// It is nowhere.
    #[error("there is no plug-in {reference}{}", known(.versions))]
    Unknown {
        /// What was looked for.
        reference: PluginRef,
        /// The versions that there are of it.
        versions: Vec<Version>,
    },
    /// Stages run it.
    #[error(
        "{id}@{version} is used by {}: deploy something else there, or stop it, before you remove it",
        names(.stages)
    )]
    InUse {
        /// The plug-in.
        id: PluginId,
        /// The version.
        version: Version,
        /// The stages.
        stages: Vec<StageAddress>,
    },
    /// Another repository gave other bytes than it promised.
    #[error(
        "the repository {repository} gave other bytes for {plugin} than it promised (digest {found} instead of {promised}): they are not used"
    )]
    Digest {
        /// The repository.
        repository: String,
        /// The plug-in with its version.
        plugin: String,
        /// The digest that it named.
        promised: String,
        /// The digest of what it gave.
        found: String,
    },
    /// Another repository does not serve.
    #[error("the repository {repository} cannot be used: {source}")]
    Repository {
        /// The repository.
        repository: String,
        /// What went wrong.
        source: SourceError,
    },
    /// What another repository says makes no sense.
    #[error("the repository {repository} cannot be used: {reason}")]
    Nonsense {
        /// The repository.
        repository: String,
        /// What is wrong.
        reason: String,
    },
    /// Others change the same version all the time.
    #[error("somebody else changed {id}@{version} at the same time: look at it, and try again")]
    Changed {
        /// The plug-in.
        id: PluginId,
        /// The version.
        version: Version,
    },
    /// It could not be kept or read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Something panicked, which is a bug.
    #[error("it broke off: {0}")]
    Broken(#[from] tokio::task::JoinError),
}

fn known(versions: &[Version]) -> String {
    match versions.is_empty() {
        true => ": `hivewire plugins` shows what there is".to_owned(),
        false => format!(": there are the versions {}", names(versions)),
    }
}

fn names<T: ToString>(things: &[T]) -> String {
    let names: Vec<String> = things.iter().map(T::to_string).collect();
    names.join(", ")
}
