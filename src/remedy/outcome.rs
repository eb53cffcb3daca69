//! What came of it.

use super::Remedy;
use crate::error::Error;
use crate::holder::Holders;

/// A remedy and what came of it.
#[derive(Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Step {
    /// The remedy.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub remedy: Remedy,
    /// What came of it.
    #[cfg_attr(feature = "serde", serde(flatten))]
    pub outcome: Outcome,
}

/// What came of a [`Remedy`].
#[derive(Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(tag = "outcome", content = "error", rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Outcome {
    /// It was done.
    Done,
    /// There was nothing left to do: it went by itself, or with something else.
    Gone,
    /// There is something else in its place by now, which was not touched.
    Changed,
    /// It was tried, and failed.
    Failed(#[cfg_attr(feature = "serde", serde(serialize_with = "as_text"))] Error),
    /// It was not tried: something on the device is still in use, or one below it is suspended.
    InUse,
    /// It was not tried: it is left to a person.
    LeftToAPerson,
    /// It was not tried: the policy does not allow it.
    NotAllowed,
    /// It was not tried: the deadline had passed.
    TooLate,
}

/// What [`Release`](super::Release) did, and what is left.
///
/// `Display` gives a tree of the steps, and of what is left; with the feature `serde` it is `Serialize`.
#[derive(Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Released {
    /// What was done, in that order, then what was not, as the last look found it.
    pub steps: Vec<Step>,
    /// Who holds the device after that; `None` where there was no time to look again.
    pub left: Option<Holders>,
    /// Whether the mapping that was to be unmapped is still there; false too where none was.
    pub is_mapped: bool,
}

impl Outcome {
    /// Whether what was to be closed is closed.
    pub fn is_success(&self) -> bool {
        matches!(self, Self::Done | Self::Gone)
    }
}

impl Released {
    /// Whether nothing is left: no holder that could be seen, and no mapping that was to be unmapped.
    pub fn is_free(&self) -> bool {
        !self.is_mapped && self.left.as_ref().is_some_and(Holders::is_empty)
    }
}

#[cfg(feature = "serde")]
fn as_text<S: serde::Serializer>(error: &Error, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(error)
}
