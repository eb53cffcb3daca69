//! What was written to the kernel to map a device, as it repeats it.

use std::fmt;

use super::option::MapOption;
use super::options::MapOptions;
use super::origin::Origin;

/// The add string of a mapping (`config_info`), as the kernel repeats it, without a key that was written as `secret=`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigInfo(String);

impl ConfigInfo {
    /// Reads the attribute. The secret is left out here, so that nothing that holds a `ConfigInfo` has it.
    pub(super) fn read(text: &str) -> Self {
        let mut kept = String::with_capacity(text.len());
        for (n, token) in text.split_ascii_whitespace().enumerate() {
            kept.push_str(if n == 0 { "" } else { " " });
            if n != 1 {
                kept.push_str(token);
                continue;
            }
            for (n, option) in token.split(',').enumerate() {
                kept.push_str(if n == 0 { "" } else { "," });
                kept.push_str(if option.starts_with("secret=") { "secret=…" } else { option });
            }
        }
        Self(kept)
    }

    /// The whole string.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn words(&self) -> impl Iterator<Item = &str> {
        self.0.split(' ').nth(1).unwrap_or_default().split(',')
    }

    /// The monitors that it was mapped with, as `address:port` with commas between.
    pub fn monitors(&self) -> &str {
        self.0.split(' ').next().unwrap_or_default()
    }

    /// The user: `admin` for `client.admin`.
    pub fn user(&self) -> Option<&str> {
        self.words().find_map(|word| word.strip_prefix("name="))
    }

    /// The map options. Words that this library does not know are in [`unknown_options`](Self::unknown_options).
    pub fn options(&self) -> MapOptions {
        self.words().filter_map(|word| word.parse::<MapOption>().ok()).fold(MapOptions::new(), |options, option| {
            // It was checked when it was read.
            options.clone().set(option).unwrap_or(options)
        })
    }

    /// The words among the options that are neither map options nor user, key and namespace.
    pub fn unknown_options(&self) -> impl Iterator<Item = &str> {
        const OURS: [&str; 4] = ["name=", "key=", "secret=", "_pool_ns="];
        self.words()
            .filter(|word| !OURS.iter().any(|ours| word.starts_with(ours)) && word.parse::<MapOption>().is_err())
    }

    /// Which process wrote it, if that was this library: the sixth token.
    pub fn origin(&self) -> Option<Origin> {
        self.0.split(' ').nth(5)?.parse().ok()
    }
}

impl fmt::Display for ConfigInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for ConfigInfo {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str =
        "192.0.2.1:6789,192.0.2.2:6789 name=admin,key=client.admin,queue_depth=64,ro,_pool_ns=t kube a -";

    #[test]
    fn user_options_and_monitors_are_read() {
        let config = ConfigInfo::read(LINE);
        assert_eq!(config.monitors(), "192.0.2.1:6789,192.0.2.2:6789");
        assert_eq!(config.user(), Some("admin"));
        assert_eq!(config.options().to_string(), "queue_depth=64,ro");
        assert_eq!(config.origin(), None);
        assert_eq!(config.to_string(), LINE);
    }

    #[test]
    fn a_secret_is_not_kept() {
        let config = ConfigInfo::read("192.0.2.1 name=a,secret=AQBRHFNlAAAAABAAo9K/oNuuDNdSqbRnkTIWhw==,ro p i -");
        assert_eq!(config.as_str(), "192.0.2.1 name=a,secret=…,ro p i -");
        assert!(!format!("{config:?}").contains("AQB"));
    }

    #[test]
    fn an_option_of_a_newer_kernel_is_told_as_unknown() {
        let config = ConfigInfo::read("192.0.2.1 name=a,frobnicate=1,ro p i -");
        assert_eq!(config.unknown_options().collect::<Vec<_>>(), ["frobnicate=1"]);
        assert_eq!(config.options().to_string(), "ro");
    }
}
