//! Ceph's options on a command line.

use std::ops::Range;

use zeroize::Zeroizing;

use super::builder::ClusterBuilder;
use crate::error::{Error, Result};
use crate::ffi::Errno;
use crate::ffi::cluster::Unconnected;
use crate::secret::Secret;

impl ClusterBuilder {
    /// Takes out of a command line what Ceph's own programs take out of theirs: `-m`, `-k`, `-K`, and every option of
    /// Ceph's as `--OPTION VALUE` or `--OPTION=VALUE`, with `-` or `_` in its name, a boolean one also as `--OPTION`
    /// and `--no-OPTION`. Returns what is left, in order; `--` and what follows is left whole.
    ///
    /// A key from the standard input (`-K -`) is read here.
    ///
    /// Which file, cluster name and user (`-c`, `--cluster`, `--id`, `-n`) is said by this builder's other methods.
    ///
    /// ```no_run
    /// use rbd::Cluster;
    ///
    /// let arguments = ["info", "--rbd-cache=false", "kube/pvc-1"].map(String::from);
    /// let (builder, rest) = Cluster::builder().arguments(&arguments)?;
    /// assert_eq!(rest, ["info", "kube/pvc-1"]);
    /// let cluster = builder.connect()?;
    /// # Ok::<(), rbd::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a value that does not fit its option (Ceph says which on the standard error), and for an
    /// argument with a NUL.
    #[doc(alias = "rados_conf_parse_argv_remainder")]
    pub fn arguments(mut self, arguments: &[String]) -> Result<(Self, Vec<String>)> {
        // Only a handle knows the options; the one that connects is made later, and takes them once more.
        let probe = Unconnected::create("ceph", "client.admin").map_err(error)?;
        let rest = probe.parse_arguments(arguments.iter().map(String::as_str)).map_err(error)?;
        self.arguments.extend(arguments.iter().map(|argument| Secret::verbatim(argument)));
        if let Some(at) = key_from_input(arguments) {
            // It cannot be read again.
            let key = Zeroizing::new(probe.get("key").map_err(error)?);
            let given = Secret::verbatim(&Zeroizing::new(format!("--key={}", *key)));
            let start = self.arguments.len() - arguments.len();
            self.arguments.splice(start + at.start..start + at.end, [given]);
        }
        Ok((self, rest))
    }
}

/// Where `-K -` stands, in any of its spellings: one argument or two.
fn key_from_input(arguments: &[String]) -> Option<Range<usize>> {
    const OPTIONS: [&str; 2] = ["-K", "--keyfile"];
    let options = arguments.iter().take_while(|argument| *argument != "--").enumerate();
    options.into_iter().find_map(|(at, option)| match option.split_once('=') {
        Some((option, "-")) if OPTIONS.contains(&option) => Some(at..at + 1),
        None if OPTIONS.contains(&&**option) && arguments.get(at + 1).is_some_and(|value| value == "-") => {
            Some(at..at + 2)
        }
        _ => None,
    })
}

pub(super) fn error(errno: Errno) -> Error {
    Error::from_errno("take options from", errno.0).with_object("command line")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rest<const N: usize>(arguments: [&str; N]) -> Vec<String> {
        ClusterBuilder::default().arguments(&arguments.map(String::from)).unwrap().1
    }

    #[test]
    fn the_options_of_ceph_are_taken_in_every_spelling_and_the_rest_is_left_in_order() {
        let arguments = ["info", "--rbd_cache", "false", "--rbd-cache=true", "--no-rbd-cache", "-m", "192.0.2.1", "i"];
        assert_eq!(rest(arguments), ["info", "i"]);
        assert_eq!(rest(["--pool", "p", "-x", "--frobnicate=1"]), ["--pool", "p", "-x", "--frobnicate=1"]);
    }

    #[test]
    fn blanks_at_the_ends_of_an_argument_are_part_of_it() {
        let (builder, _) = ClusterBuilder::default().arguments(&["--host= a ".into()]).unwrap();
        assert_eq!(builder.arguments[0].expose(), "--host= a ");
    }

    #[test]
    fn what_follows_two_dashes_is_no_option() {
        assert_eq!(rest(["--", "--rbd_cache", "false"]), ["--", "--rbd_cache", "false"]);
    }

    #[test]
    fn a_key_from_the_standard_input_is_found_in_every_spelling_before_two_dashes() {
        let at = |line: &str| key_from_input(&line.split(' ').map(String::from).collect::<Vec<_>>());
        assert_eq!(at("info -K - i"), Some(1..3));
        assert_eq!(at("--keyfile -"), Some(0..2));
        assert_eq!([at("-K=- i"), at("--keyfile=- i")], [const { Some(0..1) }; 2]);
        assert_eq!([at("-K file -"), at("--keyfile"), at("-- -K -"), at("-K- -")], [const { None }; 4]);
    }

    #[test]
    fn a_key_in_the_arguments_is_not_in_debug() {
        let (builder, rest) = ClusterBuilder::default().arguments(&["--key=AQBsecret".into()]).unwrap();
        assert_eq!(rest, [""; 0]);
        assert!(!format!("{builder:?}").contains("AQB"));
    }
}
