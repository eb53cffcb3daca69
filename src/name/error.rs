//! What can be wrong with a name.

use crate::error::{Details, Error, ErrorKind};

/// What is wrong with a name; [`Details::Name`] carries it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameError {
    /// There are no characters in it.
    #[error("it is empty")]
    Empty,
    /// A character that must not be in a name of this kind.
    #[error("it contains {0:?}")]
    Contains(char),
    /// More bytes than Ceph or the kernel takes.
    #[error("it has {length} bytes and {limit} is the limit")]
    TooLong {
        /// The length of the name, in bytes.
        length: usize,
        /// The greatest length allowed, in bytes.
        limit: usize,
    },
    /// The bytes are no UTF-8.
    #[error("it is not UTF-8")]
    NotUtf8,
    /// The snapshot name `-`, which the kernel takes for "no snapshot".
    #[error("the kernel takes \"-\" for no snapshot")]
    MeansNoSnapshot,
}

impl NameError {
    /// The error of an operation on `name`.
    pub(super) fn of(self, operation: String, name: impl std::fmt::Display) -> Error {
        Error::new(ErrorKind::InvalidName, operation).with_object(name).with_details(Details::Name(self))
    }
}
