//! The identity of a cluster.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, ErrorKind, Result};
use crate::text::quoted;

/// A cluster's identity: the UUID that `ceph fsid` prints and that the kernel shows as a mapping's `cluster_fsid`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fsid(u128);

impl FromStr for Fsid {
    type Err = Error;

    /// # Errors
    ///
    /// [`ErrorKind::InvalidInput`]: the text is no UUID with dashes.
    fn from_str(text: &str) -> Result<Self> {
        parse(text.as_bytes()).map(Self).ok_or_else(|| {
            Error::new(ErrorKind::InvalidInput, "parse fsid")
                .with_object(quoted(text))
                .with_hint("it is a UUID, as `ceph fsid` prints it")
        })
    }
}

fn parse(text: &[u8]) -> Option<u128> {
    let mut number = 0;
    for (at, byte) in text.iter().enumerate() {
        match at {
            8 | 13 | 18 | 23 if *byte == b'-' => {}
            8 | 13 | 18 | 23 => return None,
            _ => number = number << 4 | u128::from(char::from(*byte).to_digit(16)?),
        }
    }
    (text.len() == 36).then_some(number)
}

impl fmt::Display for Fsid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(n) = *self;
        let part = |shift: u32| (n >> shift) & 0xffff;
        write!(f, "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}", n >> 96, part(80), part(64), part(48), n & 0xffff_ffff_ffff)
    }
}

impl fmt::Debug for Fsid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fsid({self})")
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for Fsid {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_case_of_the_digits_does_not_matter() {
        let fsid: Fsid = "0B4C9E0D-7f0c-4f7c-8a1c-0123456789AB".parse().unwrap();
        assert_eq!(fsid.to_string(), "0b4c9e0d-7f0c-4f7c-8a1c-0123456789ab");
    }

    #[test]
    fn what_is_no_uuid_is_refused() {
        for text in ["", "0b4c9e0d7f0c4f7c8a1c0123456789ab", "+b4c9e0d-7f0c-4f7c-8a1c-0123456789ab", "a-b-c-d-e"] {
            assert_eq!(text.parse::<Fsid>().unwrap_err().kind(), ErrorKind::InvalidInput, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_fsid_survives_its_text(number: u128) {
            prop_assert_eq!(Fsid(number).to_string().parse::<Fsid>().unwrap(), Fsid(number));
        }
    }
}
