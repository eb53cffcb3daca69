//! The formats that `rbd` prints: plain text, JSON and XML.

use std::fmt::Display;
use std::io::Write as _;

use serde::Serialize;
use serde_json::ser::{PrettyFormatter, Serializer};

use crate::arguments::Arguments;
use crate::ceph_arguments::Stop;
use crate::spec::invalid;
use crate::xml;

/// What `--format` and `--pretty-format` choose.
#[derive(Clone, Copy)]
pub enum Format {
    Plain,
    Json { pretty: bool },
    Xml { pretty: bool },
}

impl Format {
    pub fn of(arguments: &Arguments) -> Result<Self, Stop> {
        let pretty = arguments.has("pretty-format");
        match arguments.get("format") {
            Some("json") => Ok(Self::Json { pretty }),
            Some("xml") => Ok(Self::Xml { pretty }),
            _ if pretty => Err(invalid("--pretty-format only works when --format is json or xml")),
            _ => Ok(Self::Plain),
        }
    }

    /// Prints a value, whose element in XML is called `name`; as plain text `plain`, without a line break if it is empty.
    pub fn print(self, name: &str, value: &impl Serialize, plain: impl Display) -> Result<(), Stop> {
        let text = match self {
            Self::Plain => Ok(plain.to_string()),
            Self::Json { pretty } => json(value, pretty),
            Self::Xml { pretty } => json(value, false).and_then(|json| xml::from_json(name, &json, pretty)),
        };
        let text = text.map_err(|error| Stop::Exit(libc::EIO, format!("rbd: {error}")))?;
        if !text.is_empty() {
            print_line(&text);
        }
        Ok(())
    }
}

/// To the standard output. Whoever does not listen any more, as `head`, misses it.
pub fn print_line(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

fn json(value: &impl Serialize, pretty: bool) -> serde_json::Result<String> {
    let mut bytes = Vec::new();
    if pretty {
        value.serialize(&mut Serializer::with_formatter(&mut bytes, PrettyFormatter::with_indent(b"    ")))?;
    } else {
        value.serialize(&mut Serializer::new(&mut bytes))?;
    }
    Ok(as_ceph_escapes(&String::from_utf8_lossy(&bytes)))
}

/// Ceph has short escapes for tabs and line breaks only, and escapes DEL too.
fn as_ceph_escapes(json: &str) -> String {
    let (mut text, mut left) = (String::with_capacity(json.len()), json.chars());
    while let Some(c) = left.next() {
        match (c, if c == '\\' { left.next() } else { None }) {
            ('\x7f', _) => text.push_str("\\u007f"),
            (_, Some('b')) => text.push_str("\\u0008"),
            (_, Some('f')) => text.push_str("\\u000c"),
            (_, Some('r')) => text.push_str("\\u000d"),
            (c, escaped) => text.extend([Some(c), escaped].into_iter().flatten()),
        }
    }
    text
}
