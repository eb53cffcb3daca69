//! The objects that belong to an image: which header, from which prefix.

use std::fmt;
use std::str::FromStr;

use super::{ImageId, ImageName};
use crate::error::{Error, ErrorKind, Result};
use crate::text::quoted;

/// The prefix of the names of an image's data objects: `block_name_prefix` in `rbd info`.
///
/// | prefix | image |
/// |---|---|
/// | `rbd_data.ID` | format 2 |
/// | `rbd_data.POOLID.ID` | format 2 with its data in another pool; POOLID is the image's own pool |
/// | `rb.0.X.Y` | format 1, which has no id |
///
/// ```
/// use rbd::BlockNamePrefix;
///
/// let prefix: BlockNamePrefix = "rbd_data.14.f561643c9869".parse()?;
/// assert_eq!(prefix.pool_id(), Some(14));
/// assert_eq!(prefix.header_object(&"any".parse()?).as_str(), "rbd_header.f561643c9869");
/// # Ok::<(), rbd::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockNamePrefix(Prefix);

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Prefix {
    Format1(String),
    Format2 { pool: Option<i64>, id: ImageId },
}

impl BlockNamePrefix {
    /// The image's id; `None` for format 1.
    pub fn image_id(&self) -> Option<&ImageId> {
        match &self.0 {
            Prefix::Format1(_) => None,
            Prefix::Format2 { id, .. } => Some(id),
        }
    }

    /// The id of the image's own pool, where the data is in another one: several pools may have their data there, and
    /// image ids are unique in a pool only.
    pub fn pool_id(&self) -> Option<i64> {
        match self.0 {
            Prefix::Format1(_) => None,
            Prefix::Format2 { pool, .. } => pool,
        }
    }

    /// The image's format, 1 or 2.
    pub fn format(&self) -> u8 {
        match self.0 {
            Prefix::Format1(_) => 1,
            Prefix::Format2 { .. } => 2,
        }
    }

    /// The header of the image with this prefix and this name; only format 1 needs the name.
    ///
    /// The header is in the image's pool, also where the data is in another.
    pub fn header_object(&self, image: &ImageName) -> HeaderObject {
        match self.image_id() {
            Some(id) => HeaderObject::of_id(id),
            None => HeaderObject::of_format_1(image),
        }
    }
}

impl fmt::Display for BlockNamePrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Prefix::Format1(prefix) => f.write_str(prefix),
            Prefix::Format2 { pool: Some(pool), id } => write!(f, "rbd_data.{pool}.{id}"),
            Prefix::Format2 { pool: None, id } => write!(f, "rbd_data.{id}"),
        }
    }
}

impl FromStr for BlockNamePrefix {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let prefix = if let Some(rest) = text.strip_prefix("rbd_data.") {
            parse_format_2(rest)
        } else if let Some(rest) = text.strip_prefix("rb.") {
            is_format_1(rest).then(|| Prefix::Format1(text.to_owned()))
        } else {
            None
        };
        prefix.map(Self).ok_or_else(|| {
            Error::new(ErrorKind::InvalidInput, "parse block name prefix")
                .with_object(quoted(text))
                .with_hint("it is rbd_data.ID, rbd_data.POOLID.ID or, for format 1, rb.0.X.Y")
        })
    }
}

fn parse_format_2(rest: &str) -> Option<Prefix> {
    let (pool, id) = match rest.split_once('.') {
        Some((pool, id)) => (Some(parse_pool_id(pool)?), id),
        None => (None, rest),
    };
    Some(Prefix::Format2 { pool, id: ImageId::new(id).ok()? })
}

/// A pool's id, spelt as Ceph spells it: no sign, no zeros before it.
fn parse_pool_id(text: &str) -> Option<i64> {
    let id = text.parse().ok().filter(|&id| id >= 0)?;
    (i64::to_string(&id) == text).then_some(id)
}

/// Two or three hexadecimal numbers: `0.11895f.6b8b4567`.
fn is_format_1(rest: &str) -> bool {
    let is_hex = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_hexdigit());
    rest.split('.').all(is_hex) && matches!(rest.split('.').count(), 2 | 3)
}

/// The object that holds an image's metadata, and that every client which has the image open watches.
///
/// It is `rbd_header.ID` for format 2 and `NAME.rbd` for format 1, in the image's pool and namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HeaderObject(String);

impl HeaderObject {
    /// The header of an image of format 2: `rbd_header.ID`.
    pub fn of_id(id: &ImageId) -> Self {
        Self(format!("rbd_header.{id}"))
    }

    /// The header of an image of format 1: `NAME.rbd`.
    pub fn of_format_1(image: &ImageName) -> Self {
        Self(format!("{image}.rbd"))
    }

    /// The object's name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for HeaderObject {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for HeaderObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for BlockNamePrefix {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for HeaderObject {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}
