//! The names that a user or a cluster gives, each a type of its own.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;

use super::RawName;
use super::error::{NameError, quoted};
use crate::error::Result;

/// The OSD option `osd_max_object_name_len`: no object has a longer name, in bytes.
const OBJECT_NAME_LIMIT: usize = 2048;

/// What a kind of name may consist of.
struct Rule {
    what: &'static str,
    forbids: fn(char) -> bool,
    limit: usize,
    kernel_forbids: fn(char) -> bool,
    kernel_limit: usize,
}

impl Rule {
    fn check(&self, name: &str) -> Result<(), NameError> {
        find_fault(name, |c| c == '\0' || (self.forbids)(c), self.limit)
    }

    fn check_for_kernel(&self, name: &str) -> Result<(), NameError> {
        find_fault(name, |c| c.is_control() || c == ' ' || (self.kernel_forbids)(c), self.kernel_limit)
    }
}

fn find_fault(name: &str, forbids: impl Fn(char) -> bool, limit: usize) -> Result<(), NameError> {
    if name.is_empty() {
        return Err(NameError::Empty);
    }
    if name.len() > limit {
        return Err(NameError::TooLong { length: name.len(), limit });
    }
    match name.chars().find(|&c| forbids(c)) {
        Some(c) => Err(NameError::Contains(c)),
        None => Ok(()),
    }
}

macro_rules! name_type {
    ($(#[$doc:meta])* $Name:ident, $rule:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $Name(String);

        impl $Name {
            const RULE: Rule = $rule;

            /// Checks that Ceph allows the name.
            ///
            /// # Errors
            ///
            /// `InvalidName`; the details say what is wrong with it.
            pub fn new(name: impl Into<String>) -> Result<Self> {
                let name = name.into();
                match Self::RULE.check(&name) {
                    Ok(()) => Ok(Self(name)),
                    Err(fault) => Err(fault.of(format!("check {}", Self::RULE.what), quoted(&name))),
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
                    None => Err(NameError::NotUtf8.of(format!("check {}", Self::RULE.what), name)),
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

macro_rules! kernel_check {
    ($Name:ident) => {
        impl $Name {
            /// Checks that the kernel's map request can carry the name: no white space and no control character,
            /// at which `drivers/block/rbd.c` splits it, and what else its parser would take for something else.
            ///
            /// # Errors
            ///
            /// `InvalidName`; the details say what is wrong with it.
            pub fn check_for_kernel(&self) -> Result<()> {
                let checked = Self::RULE.check_for_kernel(&self.0);
                checked
                    .map_err(|fault| fault.of(format!("pass to the kernel the {}", Self::RULE.what), quoted(&self.0)))
            }
        }
    };
}

name_type! {
    /// The name of a pool: any characters but NUL and `/`.
    PoolName,
    Rule {
        what: "pool name",
        forbids: |c| c == '/',
        limit: OBJECT_NAME_LIMIT,
        kernel_forbids: |_| false,
        kernel_limit: OBJECT_NAME_LIMIT,
    }
}
kernel_check!(PoolName);

name_type! {
    /// The name of a namespace in a pool: any characters but NUL, `/` and `@`, at most 256 bytes
    /// (the OSD option `osd_max_object_namespace_len`).
    ///
    /// The default namespace has no name: it is the absence of one.
    NamespaceName,
    Rule {
        what: "namespace name",
        forbids: |c| matches!(c, '/' | '@'),
        limit: 256,
        // The namespace is an option (`_pool_ns=`), and options are split at commas.
        kernel_forbids: |c| c == ',',
        kernel_limit: 256,
    }
}
kernel_check!(NamespaceName);

name_type! {
    /// The name of an image: any characters but NUL, `/` and `@`, at most 2,041 bytes.
    ///
    /// The limit comes from the object `rbd_id.NAME`, whose own limit is 2,048 bytes.
    ImageName,
    Rule {
        what: "image name",
        forbids: |c| matches!(c, '/' | '@'),
        limit: OBJECT_NAME_LIMIT - "rbd_id.".len(),
        kernel_forbids: |_| false,
        kernel_limit: OBJECT_NAME_LIMIT,
    }
}
kernel_check!(ImageName);

name_type! {
    /// The name of a snapshot: any characters but NUL, `/` and `@`.
    SnapshotName,
    Rule {
        what: "snapshot name",
        forbids: |c| matches!(c, '/' | '@'),
        limit: OBJECT_NAME_LIMIT,
        kernel_forbids: |_| false,
        // NAME_MAX without `snap_`, RBD_MAX_SNAP_NAME_LEN in drivers/block/rbd.c.
        kernel_limit: 250,
    }
}

impl SnapshotName {
    /// Checks that the kernel's map request can carry the name: no white space and no control character, at most 250
    /// bytes, and not `-`, which means no snapshot there.
    ///
    /// # Errors
    ///
    /// `InvalidName`; the details say what is wrong with it.
    pub fn check_for_kernel(&self) -> Result<()> {
        let checked = match self.as_str() {
            "-" => Err(NameError::MeansNoSnapshot),
            name => Self::RULE.check_for_kernel(name),
        };
        checked.map_err(|fault| fault.of("pass to the kernel the snapshot name".into(), quoted(&self.0)))
    }
}

name_type! {
    /// The id of an image of format 2, such as `fb236b8b4567`: it stays when the image is renamed.
    ///
    /// librbd makes ids of hexadecimal digits; any visible ASCII characters are taken here, but no `/`, `@` and `.`.
    ImageId,
    Rule {
        what: "image id",
        forbids: |c| !c.is_ascii_graphic() || matches!(c, '/' | '@' | '.'),
        limit: OBJECT_NAME_LIMIT - "rbd_header.".len(),
        kernel_forbids: |_| false,
        kernel_limit: OBJECT_NAME_LIMIT,
    }
}
