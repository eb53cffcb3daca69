//! Ceph's options on a command line.

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
    /// `-K -`, a key from the standard input, does not work: it is read here already.
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
        Ok((self, rest))
    }
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
    fn a_key_in_the_arguments_is_not_in_debug() {
        let (builder, rest) = ClusterBuilder::default().arguments(&["--key=AQBsecret".into()]).unwrap();
        assert_eq!(rest, [""; 0]);
        assert!(!format!("{builder:?}").contains("AQB"));
    }
}
