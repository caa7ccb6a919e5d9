//! What somebody expects to be there before he changes it.

use kernel::StageAddress;
use xxhash_rust::xxh3::xxh3_128;

use super::DeployError;
use super::store::Record;
use super::views::DefinitionShown;

/// What is expected of the definition of a stage before it is changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Expected {
    /// Nothing.
    #[default]
    Anything,
    /// That there is one.
    Something,
    /// That it is one of those with these [tags](DefinitionShown::tag).
    OneOf(Vec<String>),
}

impl Expected {
    /// Whether what is there may be changed.
    pub(super) fn check(
        &self,
        stage: &StageAddress,
        there: Option<&Record>,
    ) -> Result<(), DeployError> {
        let fits = match (self, there) {
            (Self::Anything, _) | (Self::Something, Some(_)) => true,
            (Self::OneOf(tags), Some(record)) => tags.contains(&DefinitionShown::of(record).tag()),
            (_, None) => false,
        };
        match fits {
            true => Ok(()),
            false => Err(DeployError::NotExpected {
                stage: stage.clone(),
                version: there.map(|record| record.version),
            }),
        }
    }
}

impl DefinitionShown {
    /// Tells this definition from all others that the stage had.
    pub fn tag(&self) -> String {
        let json = serde_json::to_vec(self).unwrap_or_default();
        format!("{:032x}", xxh3_128(&json))
    }
}
