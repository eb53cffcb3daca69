//! What the parsers share.

use std::str::FromStr;

/// A number of digits only: the standard parser takes a sign too.
pub(crate) fn decimal<T: FromStr>(digits: &str) -> Option<T> {
    if digits.bytes().all(|b| b.is_ascii_digit()) { digits.parse().ok() } else { None }
}

/// Whether a capability is effective, from the text of `/proc/PID/status`, in which a name may be no UTF-8.
pub(crate) fn has_capability(status: &[u8], capability: u32) -> Option<bool> {
    let mask = status.split(|byte| *byte == b'\n').find_map(|line| line.strip_prefix(b"CapEff:"))?;
    let mask = u64::from_str_radix(str::from_utf8(mask).ok()?.trim(), 16).ok()?;
    Some(mask >> capability & 1 == 1)
}

/// Text as it stands in an error: quoted, escaped, and not longer than a line.
pub(crate) fn quoted(text: &str) -> String {
    const SHOWN: usize = 64;
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{:?}…", &text[..end]),
        None => format!("{text:?}"),
    }
}
