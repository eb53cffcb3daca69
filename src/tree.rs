//! Trees as text for people: as wide as a terminal of old, where what is in them allows.

use std::fmt;

const COLUMNS: usize = 80;

/// The indent of what hangs on a node that has this one.
pub(crate) fn below(indent: &str, is_last: bool) -> String {
    format!("{indent}{}", if is_last { "   " } else { "│  " })
}

/// Writes the lines of a node of the tree, each broken where it is too long.
pub(crate) fn node(
    f: &mut fmt::Formatter<'_>,
    indent: &str,
    is_last: bool,
    has_branch: bool,
    lines: &[String],
) -> fmt::Result {
    let first = format!("{indent}{}", if is_last { "└─ " } else { "├─ " });
    let below = format!("{}{}", below(indent, is_last), if has_branch { "│  " } else { "   " });
    let room = COLUMNS.saturating_sub(below.chars().count());
    for (index, row) in lines.iter().flat_map(|line| rows(line, room)).enumerate() {
        write!(f, "\n{}{row}", if index == 0 { &first } else { &below })?;
    }
    Ok(())
}

/// Breaks a line after commas, and between words only where that is not enough. A word is never broken, so that paths
/// can be copied.
fn rows(line: &str, room: usize) -> Vec<String> {
    let length = |text: &str| text.trim_end().chars().count();
    let parts = line.split_inclusive(", ").flat_map(|part| {
        let words = length(part) > room;
        part.split_inclusive(move |character| words && character == ' ')
    });
    let mut rows: Vec<String> = Vec::new();
    for part in parts {
        match rows.last_mut() {
            Some(row) if row.chars().count() + length(part) <= room => row.push_str(part),
            _ => rows.push(part.to_owned()),
        }
    }
    rows.iter_mut().for_each(|row| row.truncate(row.trim_end().len()));
    rows
}
