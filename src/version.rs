//! Versions of the Ceph libraries.

use std::fmt;

/// A version of librados or librbd, as `rados_version` and `rbd_version` tell it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Version {
    /// The first number.
    pub major: i32,
    /// The second: of librbd the number of the Ceph release, such as 16.
    pub minor: i32,
    /// The third.
    pub extra: i32,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.extra)
    }
}
