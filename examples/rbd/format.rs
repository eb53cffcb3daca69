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
    if !pretty {
        return serde_json::to_string(value);
    }
    let mut bytes = Vec::new();
    value.serialize(&mut Serializer::with_formatter(&mut bytes, PrettyFormatter::with_indent(b"    ")))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
