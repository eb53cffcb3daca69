//! Text in which a value is found wherever a terminal, a mail or an event list has broken the line.

use std::ops::Range;

/// A text beside itself without white space: what to look for is found in the latter, across any line break.
pub(super) struct Flat {
    /// As it came, but lines that a terminal had cut in the middle of words are whole again, and there is nothing in it
    /// that a terminal would obey.
    text: String,
    squeezed: String,
    /// Where each byte of `squeezed` is in `text`.
    offsets: Vec<usize>,
}

impl Flat {
    pub(super) fn new(text: &str) -> Self {
        let is_obeyed = |c: char| c.is_control() && !c.is_whitespace();
        let text = unescape(&unwrap(text)).replace(is_obeyed, "\u{fffd}");
        let mut squeezed = String::with_capacity(text.len());
        let mut offsets = Vec::with_capacity(text.len());
        for (at, c) in text.char_indices().filter(|(_, c)| !c.is_whitespace()) {
            squeezed.push(c);
            offsets.resize(squeezed.len(), at);
        }
        Self { text, squeezed, offsets }
    }

    /// Where this stands, white space aside, from `from` on.
    fn find_from(&self, from: usize, anchor: &str) -> Option<Range<usize>> {
        let anchor: String = anchor.split_whitespace().collect();
        if anchor.is_empty() {
            return None;
        }
        let at = from + self.squeezed.get(from..)?.find(&anchor)?;
        Some(at..at + anchor.len())
    }

    pub(super) fn has(&self, anchor: &str) -> bool {
        self.find_from(0, anchor).is_some()
    }

    /// Where in the text this stands.
    pub(super) fn places(&self, anchor: &str) -> Vec<usize> {
        let mut places = Vec::new();
        let mut from = 0;
        while let Some(found) = self.find_from(from, anchor) {
            places.push(self.offsets[found.start]);
            from = found.end;
        }
        places
    }

    /// What stands between the first `before` and the next `after`, without white space; nothing is `None`.
    pub(super) fn between(&self, before: &str, after: &str) -> Option<&str> {
        let start = self.find_from(0, before)?.end;
        let end = self.find_from(start, after)?.start;
        Some(&self.squeezed[start..end]).filter(|value| !value.is_empty())
    }

    /// As [`between`](Self::between), where `before` may stand there several times before the one that is meant: the
    /// nearest to `after`. It ends a word, as it could be part of the value, too.
    pub(super) fn nearest_between(&self, before: &str, after: &str) -> Option<&str> {
        let mut found = None;
        let mut from = 0;
        while let Some(start) = self.find_from(from, before) {
            from = start.end;
            if found.is_some_and(|(_, end)| start.end > end) {
                break;
            }
            if self.rest_after(&start).starts_with(char::is_whitespace) {
                let end = match found {
                    Some((_, end)) => end,
                    None => self.find_from(start.end, after)?.start,
                };
                found = Some((start.end, end));
            }
        }
        found.map(|(start, end)| &self.squeezed[start..end]).filter(|value| !value.is_empty())
    }

    /// The number that stands after `before`.
    pub(super) fn number_after<T: std::str::FromStr>(&self, before: &str) -> Option<T> {
        // Not out of the text without white space, where the next word may begin with a digit.
        let rest = self.after(before)?.trim_start();
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        rest[..digits].parse().ok()
    }

    /// The text as it is after the first `before`, with its white space.
    pub(super) fn after(&self, before: &str) -> Option<&str> {
        Some(self.rest_after(&self.find_from(0, before)?))
    }

    /// The text after what was found, which is not empty.
    fn rest_after(&self, found: &Range<usize>) -> &str {
        let rest = &self.text[self.offsets[found.end - 1]..];
        let mut chars = rest.chars();
        chars.next();
        chars.as_str()
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// In one line, with each run of white space as one space.
    pub(super) fn one_line(&self) -> String {
        one_line(&self.text)
    }
}

/// In one line, with each run of white space as one space.
pub(super) fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Joins lines that a terminal has cut at its width, in the middle of words too: those of a text of which all lines but
/// the last are equally long, three at least. Elsewhere a line break is taken for one between words.
fn unwrap(text: &str) -> String {
    const NARROWEST: usize = 20;
    let lines: Vec<&str> = text.lines().collect();
    let width = lines.first().map_or(0, |line| line.chars().count());
    match lines.as_slice() {
        [whole @ .., last]
            if whole.len() >= 3
                && width >= NARROWEST
                && whole.iter().all(|line| line.chars().count() == width)
                && last.chars().count() <= width =>
        {
            lines.concat()
        }
        _ => text.to_owned(),
    }
}

/// Takes the escapes out of text that was quoted for a structured log or for JSON, once or several times.
fn unescape(text: &str) -> String {
    let mut text = text.to_owned();
    // A launcher's JSON in a gRPC error in a structured log.
    for _ in 0..3 {
        if !text.contains('\\') {
            break;
        }
        text = unescape_once(&text);
    }
    text
}

fn unescape_once(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let mut after = rest[at + 1..].chars();
        match after.next() {
            Some('n') => out.push('\n'),
            Some('r') => out.push('\r'),
            Some('t') => out.push('\t'),
            Some(c @ ('"' | '\\' | '/')) => out.push(c),
            // Go's encoder writes `&`, `<` and `>` so.
            Some('u') => match after.as_str().get(..4).and_then(|hex| u32::from_str_radix(hex, 16).ok()) {
                Some(code) => {
                    out.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
                    after = after.as_str()[4..].chars();
                }
                None => out.push_str("\\u"),
            },
            Some(c) => out.extend(['\\', c]),
            None => out.push('\\'),
        }
        rest = after.as_str();
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_value_is_found_across_line_breaks() {
        let flat = Flat::new("rbd image kube/pv\r\n   c-1 is still be\ning used");
        assert_eq!(flat.between("rbd image ", " is still being used"), Some("kube/pvc-1"));
        assert_eq!(flat.number_after::<u32>("pvc-"), Some(1));
    }

    #[test]
    fn of_several_beginnings_the_nearest_counts_and_none_inside_the_value() {
        let nearest = |text: &str| Flat::new(text).nearest_between("rbd image ", " is still").map(str::to_owned);
        assert_eq!(nearest("rbd image a not found. rbd image b is still, rbd image c is still").as_deref(), Some("b"));
        assert_eq!(nearest("it is still so: rbd image p/rbdimage1 is still used").as_deref(), Some("p/rbdimage1"));
        assert_eq!(nearest("rbd image a"), None);
    }

    #[test]
    fn a_number_ends_where_the_word_does() {
        assert_eq!(Flat::new("exit status 6\n2018-07-01 auth").number_after::<u32>("exit status "), Some(6));
        assert_eq!(Flat::new("exit status\r\n  16, x").number_after::<u32>("exit status "), Some(16));
        assert_eq!(Flat::new("exit status x").number_after::<u32>("exit status "), None);
    }

    #[test]
    fn text_after_something_keeps_its_white_space() {
        let flat = Flat::new("a: é b  c");
        assert_eq!((flat.after("a:"), flat.after("é"), flat.after("x")), (Some(" é b  c"), Some(" b  c"), None));
    }

    #[test]
    fn lines_of_one_width_are_one_line() {
        let wide = "x".repeat(30);
        assert_eq!(unwrap(&format!("{wide}\r\n{wide}\r\n{wide}\r\nx")), "x".repeat(91));
        assert_eq!(unwrap(&format!("{wide}\n{wide}x\nx")), format!("{wide}\n{wide}x\nx"));
    }

    #[test]
    fn escapes_of_several_layers_are_taken_out() {
        assert_eq!(unescape(r#"{\"a\":\"b\\n c \\\"d\\\" \u0026\"}"#), "{\"a\":\"b\n c \"d\" &\"}");
        assert_eq!(unescape(r"a\u12 \x \"), r"a\u12 \x \");
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in r#"[a-zé "\\\n\r{}u0-9:]*"#, anchor in "[a-zé :]{1,4}") {
            let flat = Flat::new(&text);
            let _ = (flat.after(&anchor), flat.between(&anchor, ":"), flat.places(&anchor));
            let _ = (flat.nearest_between(&anchor, "a"), flat.number_after::<u64>(&anchor));
        }
    }
}
