//! What Kubernetes allows as names and writes as sizes.

use crate::error::{Error, ErrorKind, Result};
use crate::text::quoted;

/// A DNS subdomain (RFC 1123), as the names of objects are: small letters, digits, `-` and `.`, a letter or digit at
/// both ends of each label, at most 253 characters.
pub(super) fn check_name(what: &str, name: &str) -> Result<()> {
    const LONGEST: usize = 253;
    let ok = name.len() <= LONGEST && name.split('.').all(is_label);
    if ok { Ok(()) } else { Err(refused(what, name, "small letters, digits, `-` and `.`, at most 253")) }
}

/// A DNS label, as the names of namespaces are: at most 63 characters, without `.`.
pub(super) fn check_namespace(name: &str) -> Result<()> {
    let ok = is_label(name);
    if ok { Ok(()) } else { Err(refused("namespace of Kubernetes", name, "small letters, digits and `-`, at most 63")) }
}

fn is_label(label: &str) -> bool {
    const LONGEST: usize = 63;
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    (1..=LONGEST).contains(&label.len()) && label.bytes().all(inner) && !label.starts_with('-') && !label.ends_with('-')
}

fn refused(what: &str, name: &str, rule: &str) -> Error {
    Error::new(ErrorKind::InvalidName, format!("check {what}"))
        .with_object(quoted(name))
        .with_hint(format!("it takes {rule}"))
}

/// A number of bytes as a Kubernetes quantity, in the largest unit that keeps it exact.
pub(super) fn quantity(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["", "Ki", "Mi", "Gi", "Ti", "Pi"];
    let exact = (bytes.trailing_zeros() / 10).min(UNITS.len() as u32 - 1) as usize;
    format!("{}{}", bytes >> (10 * exact), UNITS[exact])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_exact() {
        let sizes = [1, 1 << 10, 3 << 20, 10 << 30, 1 << 40, (1 << 30) + 1, 1 << 63];
        let texts = ["1", "1Ki", "3Mi", "10Gi", "1Ti", "1073741825", "8192Pi"];
        assert_eq!(sizes.map(quantity), texts.map(str::to_owned));
    }

    #[test]
    fn names_are_those_that_the_api_server_takes() {
        for name in ["a", "pvc-1.x", "0", &"a".repeat(63)] {
            assert!(check_name("name", name).is_ok(), "{name}");
        }
        for name in ["", "A", "a_b", "-a", "a-", "a..b", ".a", "é", "a b", &"a".repeat(64), &"a.".repeat(127)] {
            assert_eq!(check_name("name", name).unwrap_err().kind(), ErrorKind::InvalidName, "{name}");
        }
        assert!(check_namespace("prod").is_ok() && check_namespace("a.b").is_err());
    }
}
