//! The grammar of ceph.conf and of keyrings, which is the same (Ceph's `ConfUtils.cc`).

use zeroize::Zeroizing;

use crate::error::{Error, ErrorKind, Result};

/// The options of a file, by section; values may be keys, so they are wiped.
#[derive(Clone)]
pub(super) struct File(Vec<Section>);

#[derive(Clone)]
struct Section {
    name: String,
    options: Vec<(String, Zeroizing<String>)>,
}

impl File {
    pub(super) fn parse(text: &str) -> Result<Self> {
        // What stands before any section is of none, and nobody looks there.
        let mut sections = vec![Section { name: String::new(), options: Vec::new() }];
        for (number, line) in joined_lines(text) {
            let line = Line::read(&line).ok_or_else(|| {
                // Not the line itself: it may hold a key.
                Error::new(ErrorKind::InvalidInput, "parse configuration")
                    .with_object(format!("line {number}"))
                    .with_hint("it is neither a [section], nor OPTION = VALUE, nor a comment")
            })?;
            match line {
                Line::Empty => {}
                Line::Section(name) => sections.push(Section { name, options: Vec::new() }),
                Line::Option(key, value) => {
                    if let Some(section) = sections.last_mut() {
                        section.options.push((key, value));
                    }
                }
            }
        }
        Ok(Self(sections))
    }

    /// The option's value in this section, if it stands there; the last one counts.
    pub(super) fn get(&self, section: &str, option: &str) -> Option<&str> {
        let option = normalised(option);
        let sections = self.0.iter().rev().filter(|candidate| candidate.name == section);
        let mut options = sections.flat_map(|section| section.options.iter().rev());
        options.find(|(key, _)| *key == option).map(|(_, value)| value.as_str())
    }

    pub(super) fn section_names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|section| section.name.as_str()).filter(|name| !name.is_empty())
    }
}

/// Lines, with those that a backslash continues put together, and the number of the first.
fn joined_lines(text: &str) -> Vec<(usize, Zeroizing<String>)> {
    let mut lines: Vec<(usize, Zeroizing<String>)> = Vec::new();
    let mut continues = false;
    for (n, line) in text.lines().enumerate() {
        let (part, more) = match line.strip_suffix('\\') {
            // An escaped backslash is not a mark of continuation.
            Some(part) if !part.ends_with('\\') => (part, true),
            _ => (line, false),
        };
        match lines.last_mut().filter(|_| continues) {
            Some((_, joined)) => joined.push_str(part),
            None => lines.push((n + 1, Zeroizing::new(part.to_owned()))),
        }
        continues = more;
    }
    lines
}

enum Line {
    Empty,
    Section(String),
    Option(String, Zeroizing<String>),
}

impl Line {
    fn read(line: &str) -> Option<Self> {
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', ';']) {
            return Some(Self::Empty);
        }
        if let Some(rest) = line.strip_prefix('[') {
            let (name, after) = rest.split_once(']')?;
            let after = after.trim_start();
            return (after.is_empty() || after.starts_with(['#', ';'])).then(|| Self::Section(name.trim().to_owned()));
        }
        let (key, value) = line.split_once('=')?;
        let key = normalised(key);
        (!key.is_empty()).then_some(())?;
        Some(Self::Option(key, value_of(value.trim_start())?))
    }
}

/// `mon host`, `mon_host` and `mon-host` are one option.
fn normalised(key: &str) -> String {
    let words = key.split(|c: char| c.is_whitespace() || matches!(c, '_' | '-'));
    words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join("_")
}

/// In quotes all up to the closing one, else all up to a comment, without blanks at the end. A backslash takes what
/// follows as it is.
fn value_of(text: &str) -> Option<Zeroizing<String>> {
    let mut value = Zeroizing::new(String::with_capacity(text.len()));
    let quote = text.chars().next().filter(|c| matches!(c, '"' | '\''));
    let mut chars = text.char_indices().skip(usize::from(quote.is_some()));
    // How much of an unquoted value is more than blanks at its end.
    let mut kept = 0;
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some((_, escaped)) => {
                    value.push(escaped);
                    kept = value.len();
                }
                None => value.push('\\'),
            },
            c if Some(c) == quote => {
                let after = text[at + 1..].trim_start();
                return (after.is_empty() || after.starts_with(['#', ';'])).then_some(value);
            }
            '#' | ';' if quote.is_none() => break,
            c => {
                value.push(c);
                if !c.is_whitespace() {
                    kept = value.len();
                }
            }
        }
    }
    // A quote that was opened must be closed.
    if quote.is_some() {
        return None;
    }
    value.truncate(kept);
    Some(value)
}

impl std::fmt::Debug for File {
    /// The names of the sections: a value may be a key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.section_names()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn spellings_comments_quotes_and_continued_lines_are_understood() {
        let file = File::parse(
            "# a comment\n\
             ignored = before any section\n\
             [global] ; of all\n\
             mon host = 192.0.2.1, \\\n192.0.2.2 ; two\n\
             \tAuth-Client  Required=cephx # x\n\
             quoted = \"a # b; \\\"c\\\" \"  # after\n\
             single = 'd \" e'\n\
             escaped = a\\#b\\\\ \n\
             empty =\n\
             [client.admin]\r\n\
             keyring = /first\n\
             keyring = /second\r\n\
             [global]\n\
             again = yes\n",
        )
        .unwrap();
        assert_eq!(file.get("global", "mon_host"), Some("192.0.2.1, 192.0.2.2"));
        assert_eq!(file.get("global", "mon-host"), file.get("global", "mon  host"));
        assert_eq!(file.get("global", "Auth_Client_Required"), Some("cephx"));
        assert_eq!(file.get("global", "quoted"), Some("a # b; \"c\" "));
        assert_eq!(file.get("global", "single"), Some("d \" e"));
        assert_eq!(file.get("global", "escaped"), Some("a#b\\"));
        assert_eq!(file.get("global", "empty"), Some(""));
        assert_eq!(file.get("client.admin", "keyring"), Some("/second"));
        assert_eq!(file.get("global", "again"), Some("yes"));
        assert_eq!(file.get("global", "ignored"), None);
        assert_eq!(file.get("client", "keyring"), None);
    }

    #[test]
    fn what_is_not_understood_is_named_by_its_line_and_not_repeated() {
        for text in ["[global]\nkey AQBsecret", "[global]\nkey = \"AQBsecret", "[global\nAQBsecret=1", "\n= AQBsecret"]
        {
            let error = File::parse(text).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{text}");
            assert!(error.object().unwrap().starts_with("line "), "{error}");
            assert!(!format!("{error:?}").contains("AQBsecret"), "{error:?}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in "[\\[\\]a-z=\"'\\\\#;\n \t$]{0,60}") {
            let _ = File::parse(&text);
        }

        #[test]
        fn a_quoted_value_survives(value in "[^\"\\\\\r\n]{0,40}") {
            let file = File::parse(&format!("[s]\no = \"{value}\"\n")).unwrap();
            prop_assert_eq!(file.get("s", "o"), Some(value.as_str()));
        }
    }
}
