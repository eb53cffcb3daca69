//! The command line, by the rules of `rbd`'s parser (Boost.Program_options) and with its messages.

use std::ops::RangeInclusive;

use rbd::rados::ClusterBuilder;

use crate::ceph_arguments::Stop;

/// A command, its options and what it does.
pub struct Command {
    /// The words that name it, and others that do.
    pub names: &'static [&'static [&'static str]],
    pub options: &'static [&'static [Opt]],
    /// How many arguments it takes.
    pub positional: usize,
    pub run: fn(&Arguments, &ClusterBuilder) -> Result<(), Stop>,
}

/// An option of a command.
pub struct Opt {
    long: &'static str,
    /// With its dash.
    short: Option<&'static str>,
    takes: Takes,
}

#[derive(PartialEq)]
pub enum Takes {
    Nothing,
    /// A value.
    Value,
    /// A value, and may be given again.
    Values,
    OneOf(&'static [&'static str]),
    Number,
    /// A number of bytes.
    Size(RangeInclusive<u64>),
}

impl Opt {
    pub const fn new(long: &'static str, takes: Takes) -> Self {
        Self { long, short: None, takes }
    }

    pub const fn short(self, short: &'static str) -> Self {
        Self { short: Some(short), ..self }
    }
}

/// Which image.
pub const IMAGE: &[Opt] =
    &[Opt::new("pool", Takes::Value).short("-p"), Opt::new("namespace", Takes::Value), Opt::new("image", Takes::Value)];
pub const SNAPSHOT: &[Opt] = &[Opt::new("snap", Takes::Value)];
/// How to print.
pub const FORMAT: &[Opt] =
    &[Opt::new("format", Takes::OneOf(&["plain", "json", "xml"])), Opt::new("pretty-format", Takes::Nothing)];

/// What was given to a command.
#[derive(Default)]
pub struct Arguments {
    options: Vec<(&'static str, String)>,
    pub positional: Vec<String>,
}

/// Finds the command that the arguments name, whose words may stand between options; and the name that they use.
pub fn find<'a>(
    commands: &[&'a Command],
    arguments: &[String],
) -> Result<(&'a Command, &'static [&'static str]), Stop> {
    let words = words(commands, arguments);
    let named = commands.iter().find_map(|command| {
        let name = command.names.iter().find(|name| words.starts_with(name))?;
        Some((*command, *name))
    });
    named.ok_or_else(|| match &words[..] {
        [] => Stop::Refused("help".into()),
        words => Stop::Refused(format!("command '{}'", words.join(" "))),
    })
}

/// The arguments that are neither options nor their values, as far as one can tell before the command is known.
fn words<'a>(commands: &[&Command], arguments: &'a [String]) -> Vec<&'a str> {
    let is_switch = |argument: &str| {
        let mut options = commands.iter().flat_map(|command| command.options).copied().flatten();
        options.any(|option| option.takes == Takes::Nothing && argument.strip_prefix("--") == Some(option.long))
    };
    let (mut words, mut left) = (Vec::new(), arguments.iter().map(String::as_str));
    while let Some(argument) = left.next() {
        match argument {
            "-h" | "--help" => return Vec::new(),
            "--" => words.extend(left.by_ref()),
            _ if argument.starts_with('-') => {
                if argument != "-" && !is_switch(argument) && !argument.contains('=') {
                    left.next();
                }
            }
            _ => words.push(argument),
        }
    }
    words
}

impl Arguments {
    /// Parses the arguments of a command that they call `name`.
    pub fn parse(command: &Command, name: &[&str], arguments: &[String]) -> Result<Self, Stop> {
        let mut parsed = Self::default();
        let mut given = Vec::new();
        let mut left = arguments.iter().map(String::as_str).peekable();
        while let Some(argument) = left.next() {
            if argument == "--" {
                parsed.positional.extend(left.by_ref().map(String::from));
                continue;
            }
            let Some((option, adjacent)) = command.option(argument)? else {
                parsed.positional.push(argument.into());
                continue;
            };
            let value = match (&option.takes, adjacent) {
                (Takes::Nothing, None) => "",
                (Takes::Nothing, Some(_)) => return Err(option.error("does not take any arguments")),
                (_, Some(value)) => value,
                // What looks like another short option is none's value; a long one is.
                (_, None) => left
                    .next_if(|next| !command.all().any(|option| option.short == Some(next)))
                    .ok_or_else(|| bad(format!("the required argument for option '--{}' is missing", option.long)))?,
            };
            given.push((option, value));
        }
        parsed.take_name(command, name)?;
        for (option, value) in given {
            if option.takes != Takes::Values && parsed.get(option.long).is_some() {
                return Err(option.error("cannot be specified more than once"));
            }
            option.check(value)?;
            parsed.options.push((option.long, value.into()));
        }
        Ok(parsed)
    }

    fn take_name(&mut self, command: &Command, name: &[&str]) -> Result<(), Stop> {
        if self.positional.len() > name.len().saturating_add(command.positional) {
            return Err(bad("too many arguments"));
        }
        let named = self.positional.len() >= name.len() && self.positional.drain(..name.len()).eq(name.iter().copied());
        if named { Ok(()) } else { Err(bad("failed to parse command")) }
    }

    /// The value of an option.
    pub fn get(&self, option: &str) -> Option<&str> {
        self.all(option).next()
    }

    /// All values of an option.
    pub fn all(&self, option: &str) -> impl Iterator<Item = &str> {
        self.options.iter().filter(move |(name, _)| *name == option).map(|(_, value)| &**value)
    }

    /// Whether an option was given.
    pub fn has(&self, option: &str) -> bool {
        self.get(option).is_some()
    }
}

impl Command {
    fn all(&self) -> impl Iterator<Item = &Opt> {
        self.options.iter().copied().flatten()
    }

    /// The option that an argument is, and the value in it; `None` for one that is no option.
    fn option<'a>(&self, argument: &'a str) -> Result<Option<(&Opt, Option<&'a str>)>, Stop> {
        let (option, adjacent) = if let Some(long) = argument.strip_prefix("--") {
            let (name, value) = match long.split_once('=') {
                Some((name, "")) => {
                    let text =
                        format!("the argument for option '--{name}' should follow immediately after the equal sign");
                    return Err(bad(text));
                }
                Some((name, value)) => (name, Some(value)),
                None => (long, None),
            };
            (self.all().find(|option| option.long == name), value)
        } else if argument.starts_with('-') && argument != "-" {
            // A dash and one letter; what sticks to it is the value.
            let end = argument.char_indices().nth(2).map_or(argument.len(), |(at, _)| at);
            let (name, value) = argument.split_at(end);
            (self.all().find(|option| option.short == Some(name)), Some(value).filter(|value| !value.is_empty()))
        } else {
            return Ok(None);
        };
        let option = option.ok_or_else(|| bad(format!("unrecognised option '{argument}'")))?;
        Ok(Some((option, adjacent)))
    }
}

impl Opt {
    fn check(&self, value: &str) -> Result<(), Stop> {
        let name = self.long;
        match &self.takes {
            Takes::OneOf(values) if !values.contains(&value) => {
                Err(bad(format!("the argument for option '--{name}' is invalid")))
            }
            Takes::Size(range) if !bytes(value).is_some_and(|size| range.contains(&size)) => {
                Err(bad(format!("the argument for option '--{name}' is invalid")))
            }
            Takes::Number if value.is_empty() => Err(bad(format!("the argument for option '--{name}' is invalid"))),
            Takes::Number if value.parse::<u64>().is_err() => {
                Err(bad(format!("the argument ('{value}') for option '--{name}' is invalid")))
            }
            _ => Ok(()),
        }
    }

    fn error(&self, what: &str) -> Stop {
        bad(format!("option '--{}' {what}", self.long))
    }
}

/// An error of the arguments, whose status is 1.
fn bad(message: impl AsRef<str>) -> Stop {
    Stop::Exit(1, format!("rbd: {}", message.as_ref()))
}

/// A number of bytes with a binary unit: `4096`, `4K`, `4Ki`. Of two letters the original looks at the first only.
pub fn bytes(text: &str) -> Option<u64> {
    let number_end = text.find(|c: char| !c.is_ascii_digit() && c != '+').unwrap_or(text.len());
    let (number, unit) = text.split_at(number_end);
    let power = match unit.as_bytes() {
        [] => 0,
        [b'B', b'i'] => return None,
        [letter] | [letter, _] => b"BKMGTPE".iter().position(|known| known == letter)?,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << (10 * power))
}
