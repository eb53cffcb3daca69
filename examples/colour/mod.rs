//! Trees in colour, where a terminal shows them.

use std::io::{IsTerminal, stdout};

pub const BOLD: &str = "1";
pub const RED: &str = "31";
pub const GREEN: &str = "32";
#[allow(dead_code)] // not every example has all
pub const YELLOW: &str = "33";

/// The text with each line in the style that `style` has for it; as it is where no terminal shows it, and where
/// `NO_COLOR` is set.
pub fn tree(text: &str, mut style: impl FnMut(&str) -> Option<&'static str>) -> String {
    if !stdout().is_terminal() || std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty()) {
        return text.to_owned();
    }
    let line = |line: &str| {
        let Some(style) = style(line) else { return line.to_owned() };
        // The branches keep the terminal's own colour.
        let text = line.trim_start_matches(['│', '├', '└', '─', ' ']);
        let (branches, text) = line.split_at(line.len() - text.len());
        format!("{branches}\x1b[{style}m{text}\x1b[0m")
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}
