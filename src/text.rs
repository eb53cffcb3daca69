//! What the parsers share.

use std::str::FromStr;

/// A number of digits only: the standard parser takes a sign too.
pub(crate) fn decimal<T: FromStr>(digits: &str) -> Option<T> {
    if digits.bytes().all(|b| b.is_ascii_digit()) { digits.parse().ok() } else { None }
}

/// Text as it stands in an error: quoted, escaped, and not longer than a line.
pub(crate) fn quoted(text: &str) -> String {
    const SHOWN: usize = 64;
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{:?}…", &text[..end]),
        None => format!("{text:?}"),
    }
}
