//! The names that a user or a cluster gives, each a type of its own.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;

use super::RawName;
use super::error::NameError;
use crate::error::Result;
use crate::text::quoted;

/// The OSD option `osd_max_object_name_len`: no object has a longer name, in bytes.
const OBJECT_NAME_LIMIT: usize = 2048;

/// The most that one write to the kernel's sysfs carries, in bytes: a page (`kernfs_fop_write_iter`), where it is
/// smallest. What is longer would be cut, and the rest taken for another request.
pub(crate) const KERNEL_WRITE_LIMIT: usize = 4096;

/// What a name may consist of.
struct Rule {
    /// In bytes.
    limit: usize,
    forbids: fn(char) -> bool,
}

impl Rule {
    fn check(&self, name: &str) -> Result<(), NameError> {
        if name.is_empty() {
            return Err(NameError::Empty);
        }
        if name.len() > self.limit {
            return Err(NameError::TooLong { length: name.len(), limit: self.limit });
        }
        match name.chars().find(|&c| c == '\0' || (self.forbids)(c)) {
            Some(c) => Err(NameError::Contains(c)),
            None => Ok(()),
        }
    }
}

/// Whether the kernel splits its map request there (`next_token` in `drivers/block/rbd.c`), or is better not given it.
fn splits_in_kernel(c: char) -> bool {
    c == ' ' || c.is_control()
}

macro_rules! name_type {
    ($(#[$doc:meta])* $Name:ident, $what:literal, $rule:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $Name(String);

        impl $Name {
            const WHAT: &str = $what;

            /// Checks that Ceph allows the name.
            ///
            /// # Errors
            ///
            /// `InvalidName`; the details say what is wrong with it.
            pub fn new(name: impl Into<String>) -> Result<Self> {
                const RULE: Rule = $rule;
                let name = name.into();
                match RULE.check(&name) {
                    Ok(()) => Ok(Self(name)),
                    Err(fault) => Err(fault.of(format!("check {}", Self::WHAT), quoted(&name))),
                }
            }

            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $Name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl AsRef<str> for $Name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl Borrow<str> for $Name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $Name {
            type Err = crate::Error;

            fn from_str(name: &str) -> Result<Self> {
                Self::new(name)
            }
        }

        impl TryFrom<&str> for $Name {
            type Error = crate::Error;

            fn try_from(name: &str) -> Result<Self> {
                Self::new(name)
            }
        }

        impl TryFrom<String> for $Name {
            type Error = crate::Error;

            fn try_from(name: String) -> Result<Self> {
                Self::new(name)
            }
        }

        impl TryFrom<&RawName> for $Name {
            type Error = crate::Error;

            fn try_from(name: &RawName) -> Result<Self> {
                match name.to_str() {
                    Some(name) => Self::new(name),
                    None => Err(NameError::NotUtf8.of(format!("check {}", Self::WHAT), name)),
                }
            }
        }

        #[cfg(feature = "serde")]
        impl serde::Serialize for $Name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        #[cfg(feature = "serde")]
        impl<'de> serde::Deserialize<'de> for $Name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Self::new(String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
            }
        }
    };
}

/// The second level of validity, for the names that go into the kernel's map request.
macro_rules! kernel_check {
    ($(#[$doc:meta])* $Name:ident, $check:expr) => {
        impl $Name {
            $(#[$doc])*
            ///
            /// # Errors
            ///
            /// `InvalidName`; the details say what is wrong with it.
            pub fn check_for_kernel(&self) -> Result<()> {
                let check: fn(&str) -> Result<(), NameError> = $check;
                check(&self.0).map_err(|fault| {
                    fault.of(format!("pass to the kernel the {}", Self::WHAT), quoted(&self.0))
                })
            }
        }
    };
}

name_type! {
    /// The name of a pool: any characters but NUL and `/`, of any length.
    ///
    /// Ceph itself makes pools with a `/` in their name, but no [`ImageSpec`](super::ImageSpec) could name them. The
    /// `rbd` program makes no images in a pool with an `@` in its name; librbd does.
    PoolName,
    "pool name",
    Rule { limit: usize::MAX, forbids: |c| c == '/' }
}

kernel_check! {
    /// Checks that the kernel's map request can carry the name: no space and no control character, at most 4,096
    /// bytes (the whole request has no more).
    PoolName,
    |name| Rule { limit: KERNEL_WRITE_LIMIT, forbids: splits_in_kernel }.check(name)
}

name_type! {
    /// The name of a namespace in a pool: any characters but NUL, `/` and `@`, at most 256 bytes
    /// (the OSD option `osd_max_object_namespace_len`).
    ///
    /// The default namespace has no name: it is the absence of one.
    NamespaceName,
    "namespace name",
    Rule { limit: 256, forbids: |c| matches!(c, '/' | '@') }
}

kernel_check! {
    /// Checks that the kernel's map request can carry the name: no space and no control character, and no comma,
    /// since it goes there as the option `_pool_ns=` and options are split at commas.
    NamespaceName,
    |name| Rule { limit: usize::MAX, forbids: |c| c == ',' || splits_in_kernel(c) }.check(name)
}

name_type! {
    /// The name of an image: any characters but NUL, `/` and `@`, at most 2,041 bytes.
    ///
    /// The limit is that of the object `rbd_id.NAME`, 2,048 bytes (the OSD option `osd_max_object_name_len`).
    ImageName,
    "image name",
    Rule { limit: OBJECT_NAME_LIMIT - "rbd_id.".len(), forbids: |c| matches!(c, '/' | '@') }
}

kernel_check! {
    /// Checks that the kernel's map request can carry the name: no space and no control character.
    ImageName,
    |name| Rule { limit: usize::MAX, forbids: splits_in_kernel }.check(name)
}

name_type! {
    /// The name of a snapshot: any characters but NUL, `/` and `@`, of any length.
    SnapshotName,
    "snapshot name",
    Rule { limit: usize::MAX, forbids: |c| matches!(c, '/' | '@') }
}

kernel_check! {
    /// Checks that the kernel's map request can carry the name: no space and no control character, at most 250 bytes
    /// (`RBD_MAX_SNAP_NAME_LEN` in `drivers/block/rbd.c`), and not `-`, which means no snapshot there.
    SnapshotName,
    |name| match name {
        "-" => Err(NameError::MeansNoSnapshot),
        _ => Rule { limit: 250, forbids: splits_in_kernel }.check(name),
    }
}

name_type! {
    /// The id of an image of format 2, such as `fb236b8b4567`: it stays when the image is renamed.
    ///
    /// librbd makes ids of hexadecimal digits; any visible ASCII characters are taken here, but no `/`, `@` and `.`,
    /// at most 2,037 bytes (the object `rbd_header.ID` has no more than 2,048).
    ImageId,
    "image id",
    Rule {
        limit: OBJECT_NAME_LIMIT - "rbd_header.".len(),
        forbids: |c| !c.is_ascii_graphic() || matches!(c, '/' | '@' | '.'),
    }
}
