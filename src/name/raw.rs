//! Names as a listing returned them.

use std::fmt::{self, Write as _};

/// The bytes of a name as the cluster or the kernel returned them: perhaps no UTF-8, perhaps nothing that this library
/// could be told to open.
///
/// Its text is the name; a backslash is doubled, and control characters and bytes that are no UTF-8 stand as `\xNN`, so
/// that two names never look the same. `ImageName::try_from(&raw)` and its like turn it into a name that can be used.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RawName(Vec<u8>);

impl RawName {
    /// The bytes, as they came.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The name, where it is UTF-8.
    pub fn to_str(&self) -> Option<&str> {
        str::from_utf8(&self.0).ok()
    }
}

impl From<Vec<u8>> for RawName {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}

impl From<&[u8]> for RawName {
    fn from(bytes: &[u8]) -> Self {
        Self(bytes.to_vec())
    }
}

impl From<String> for RawName {
    fn from(name: String) -> Self {
        Self(name.into_bytes())
    }
}

impl From<&str> for RawName {
    fn from(name: &str) -> Self {
        Self(name.as_bytes().to_vec())
    }
}

impl fmt::Display for RawName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            for c in chunk.valid().chars() {
                match c {
                    '\\' => f.write_str("\\\\")?,
                    c if c.is_control() => {
                        for byte in c.encode_utf8(&mut [0; 4]).bytes() {
                            write!(f, "\\x{byte:02x}")?;
                        }
                    }
                    c => f.write_char(c)?,
                }
            }
            for byte in chunk.invalid() {
                write!(f, "\\x{byte:02x}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for RawName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RawName({self})")
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for RawName {
    /// The name where it is UTF-8, else its text with the other bytes escaped.
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.to_str() {
            Some(name) => serializer.serialize_str(name),
            None => serializer.collect_str(self),
        }
    }
}
