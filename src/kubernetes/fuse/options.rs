//! The options that decide how much disk the programs want, and where.

use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

/// The options of cosfs, ossfs and s3fs that are about the local cache. What is not given is `None`: the program's
/// default.
///
/// Its text is what goes into the volume's options: `-ouse_cache=/data -oensure_diskfree=1024`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct FuseOptions {
    /// The directory of the cache; without it files pass through [`tmpdir`](Self::tmpdir) and are not kept.
    pub use_cache: Option<PathBuf>,
    /// The directory of temporary files, `/tmp` by default (s3fs, ossfs).
    pub tmpdir: Option<PathBuf>,
    /// Whether the cache is emptied at mount and unmount.
    pub del_cache: bool,
    /// How much of the cache's file system must stay free, in MiB.
    pub ensure_diskfree: Option<u64>,
    /// The size of a part of an upload, in MiB.
    pub multipart_size: Option<u64>,
    /// How many parts are under way at once.
    pub parallel_count: Option<u64>,
    /// Options of these whose value is no number, as they stand.
    pub unreadable: Vec<String>,
}

impl FuseOptions {
    /// Reads the options of a command line or of a volume's options: `-oNAME=VALUE`, `-o NAME=VALUE,NAME`. Others are
    /// passed over; the last of several holds.
    pub fn parse(text: &str) -> Self {
        let mut options = Self::default();
        let mut words = text.split_whitespace();
        while let Some(word) = words.next() {
            let list = match word.strip_prefix("-o") {
                Some("") => words.next().unwrap_or_default(),
                Some(list) => list,
                // A volume's options may be only the list.
                None if word.contains('=') && !word.starts_with('-') => word,
                None => continue,
            };
            list.split(',').for_each(|option| options.set(option));
        }
        options
    }

    /// These options in a text with others, in place of those of the same name there.
    pub(in crate::kubernetes) fn put_into(&self, text: &str) -> String {
        let new = self.to_string();
        let named = |option: &str| option.split('=').next().unwrap_or_default().to_owned();
        let replaced: Vec<String> = new.split_whitespace().map(|option| named(&option[2..])).collect();
        let mut kept: Vec<String> = Vec::new();
        let mut words = text.split_whitespace();
        while let Some(word) = words.next() {
            let (before, list) = match word.strip_prefix("-o") {
                Some("") => ("-o ", words.next().unwrap_or_default()),
                Some(list) => ("-o", list),
                None => ("", word),
            };
            let others: Vec<&str> = list.split(',').filter(|option| !replaced.contains(&named(option))).collect();
            if !others.is_empty() {
                kept.push(format!("{before}{}", others.join(",")));
            }
        }
        kept.extend((!new.is_empty()).then_some(new));
        kept.join(" ")
    }

    fn set(&mut self, option: &str) {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        let value = value.trim_matches(['"', '\'', ',']);
        let number = match name {
            "use_cache" => return self.use_cache = (!value.is_empty()).then(|| value.into()),
            "tmpdir" => return self.tmpdir = (!value.is_empty()).then(|| value.into()),
            "del_cache" => return self.del_cache = true,
            "ensure_diskfree" => &mut self.ensure_diskfree,
            "multipart_size" => &mut self.multipart_size,
            "parallel_count" => &mut self.parallel_count,
            _ => return,
        };
        match crate::text::decimal(value) {
            Some(value) => *number = Some(value),
            None => self.unreadable.push(option.to_owned()),
        }
    }
}

impl fmt::Display for FuseOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = |name, path: &Option<PathBuf>| path.as_ref().map(|path| format!("-o{name}={}", path.display()));
        let number = |name, number: Option<u64>| number.map(|number| format!("-o{name}={number}"));
        let options = [
            path("use_cache", &self.use_cache),
            path("tmpdir", &self.tmpdir),
            self.del_cache.then(|| "-odel_cache".to_owned()),
            number("ensure_diskfree", self.ensure_diskfree),
            number("multipart_size", self.multipart_size),
            number("parallel_count", self.parallel_count),
        ];
        f.write_str(&options.into_iter().flatten().collect::<Vec<_>>().join(" "))
    }
}
