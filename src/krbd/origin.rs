//! The mark that this library leaves on what it maps.

use std::fmt;
use std::fs;
use std::io;
use std::os::linux::fs::MetadataExt;
use std::path::Path;
use std::process;
use std::str::FromStr;

use super::sys;
use crate::error::{Error, ErrorKind, Result};

/// Which process mapped a device: a token that this library adds to what it writes to the kernel.
///
/// The kernel's parser reads five tokens (`rbd_add_parse_args` in `drivers/block/rbd.c`) and ignores the rest, and the
/// attribute `config_info` repeats them all. So the token tells two mappings of equal specs apart, and a later program
/// can see what was left by one that died. It reads
/// `origin=BOOT/PIDNS/PID/START/RANDOM`: the boot id, the inode number of the process id namespace, the process id in
/// that namespace, the process's start time in clock ticks since boot, and 64 random bits.
///
/// That a process is gone does not mean that its mapping was meant to go with it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Origin {
    boot_id: String,
    pid_namespace: u64,
    pid: u32,
    start_time: u64,
    random: u64,
}

/// Whether the process of an [`Origin`] lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
pub enum Liveness {
    /// It lives.
    Alive,
    /// It ended, or the host was booted since.
    Gone,
    /// It is in another process id namespace, or `/proc` cannot be read.
    Unknown,
}

const PREFIX: &str = "origin=";
/// Where `/proc` cannot be read: such a mark still tells mappings apart, by its random part.
const NO_BOOT_ID: &str = "-";

impl Origin {
    /// This process's, different at each call.
    pub(super) fn here(proc: &Path) -> Result<Self> {
        Ok(Self {
            boot_id: boot_id(proc).unwrap_or_else(|| NO_BOOT_ID.to_owned()),
            pid_namespace: pid_namespace(proc).unwrap_or(0),
            pid: process::id(),
            // Not by its id: this may be the /proc of another namespace.
            start_time: start_time(&proc.join("self")).unwrap_or(0),
            random: sys::random()?,
        })
    }

    /// The process's id in its own process id namespace.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Whether the process lives, by `/proc`.
    pub fn liveness(&self) -> Liveness {
        self.liveness_in(Path::new("/proc"))
    }

    pub(super) fn liveness_in(&self, proc: &Path) -> Liveness {
        match boot_id(proc) {
            Some(boot_id) if boot_id != self.boot_id && self.boot_id != NO_BOOT_ID => return Liveness::Gone,
            Some(boot_id) if boot_id == self.boot_id => {}
            _ => return Liveness::Unknown,
        }
        let is_own_proc =
            fs::read_link(proc.join("self")).is_ok_and(|own| own.as_os_str() == &*process::id().to_string());
        if !is_own_proc || pid_namespace(proc) != Some(self.pid_namespace) {
            return Liveness::Unknown;
        }
        let process = proc.join(self.pid.to_string());
        match start_time(&process) {
            Some(start) if start == self.start_time => Liveness::Alive,
            Some(_) => Liveness::Gone,
            None if is_missing(&process) => Liveness::Gone,
            None => Liveness::Unknown,
        }
    }
}

fn boot_id(proc: &Path) -> Option<String> {
    let text = fs::read_to_string(proc.join("sys/kernel/random/boot_id")).ok()?;
    Some(text.trim_end().to_owned())
}

fn pid_namespace(proc: &Path) -> Option<u64> {
    Some(fs::metadata(proc.join("self/ns/pid")).ok()?.st_ino())
}

fn is_missing(path: &Path) -> bool {
    fs::symlink_metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

/// Field 22 of `/proc/PID/stat`; the second field, the name, is in brackets and may contain anything.
fn start_time(process: &Path) -> Option<u64> {
    let stat = fs::read(process.join("stat")).ok()?;
    let after_name = &stat[stat.iter().rposition(|&byte| byte == b')')? + 1..];
    str::from_utf8(after_name).ok()?.split_ascii_whitespace().nth(19)?.parse().ok()
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { boot_id, pid_namespace, pid, start_time, random } = self;
        write!(f, "{PREFIX}{boot_id}/{pid_namespace}/{pid}/{start_time}/{random:016x}")
    }
}

impl FromStr for Origin {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let read = || {
            let mut parts = text.strip_prefix(PREFIX)?.split('/');
            let origin = Self {
                boot_id: parts.next().filter(|id| id.bytes().all(|b| b.is_ascii_graphic()))?.to_owned(),
                pid_namespace: parts.next()?.parse().ok()?,
                pid: parts.next()?.parse().ok()?,
                start_time: parts.next()?.parse().ok()?,
                random: u64::from_str_radix(parts.next()?, 16).ok()?,
            };
            parts.next().is_none().then_some(origin)
        };
        read().ok_or_else(|| {
            Error::new(ErrorKind::InvalidInput, "read origin of mapping").with_object(format!("{text:?}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_marks_of_one_process_differ_and_survive_their_text() {
        let (a, b) = (Origin::here(Path::new("/proc")).unwrap(), Origin::here(Path::new("/proc")).unwrap());
        assert_ne!(a, b);
        assert_eq!(a.to_string().parse::<Origin>().unwrap(), a);
        assert_eq!(a.pid(), std::process::id());
        assert!(a.to_string().len() < 120, "{a}");
    }

    #[test]
    fn the_process_of_a_mark_is_known_to_live_or_to_be_gone() {
        let here = Origin::here(Path::new("/proc")).unwrap();
        assert_eq!(here.liveness(), Liveness::Alive);
        assert_eq!(Origin { start_time: here.start_time + 1, ..here.clone() }.liveness(), Liveness::Gone);
        assert_eq!(Origin { boot_id: "earlier".into(), ..here.clone() }.liveness(), Liveness::Gone);
        assert_eq!(Origin { pid_namespace: 1, ..here }.liveness(), Liveness::Unknown);
    }

    #[test]
    fn without_proc_a_mark_is_made_and_nothing_is_claimed_of_it() {
        let origin = Origin::here(Path::new("/nonexistent")).unwrap();
        assert_eq!(origin.to_string().parse::<Origin>().unwrap(), origin);
        assert_eq!(origin.liveness(), Liveness::Unknown);
    }

    #[test]
    fn a_process_name_with_brackets_and_blanks_is_no_obstacle() {
        let proc = tempfile::tempdir().unwrap();
        fs::create_dir(proc.path().join("7")).unwrap();
        let fields: Vec<_> = (3..=52).map(|n| n.to_string()).collect();
        fs::write(proc.path().join("7/stat"), format!("7 (a) b (c) {}\n", fields.join(" "))).unwrap();
        assert_eq!(start_time(&proc.path().join("7")), Some(22));
    }

    /// Like a host's `/proc` that a container sees under `/host/proc`: process ids mean others there.
    #[test]
    fn the_proc_of_another_namespace_makes_the_same_mark_and_says_nothing_of_a_process() {
        let proc = tempfile::tempdir().unwrap();
        let own = proc.path().join("4294967295");
        fs::create_dir_all(proc.path().join("sys/kernel/random")).unwrap();
        fs::copy("/proc/sys/kernel/random/boot_id", proc.path().join("sys/kernel/random/boot_id")).unwrap();
        std::os::unix::fs::symlink("/proc/self", &own).unwrap();
        std::os::unix::fs::symlink("4294967295", proc.path().join("self")).unwrap();
        let origin = Origin::here(proc.path()).unwrap();
        assert_eq!(origin.liveness(), Liveness::Alive);
        assert_eq!(origin.liveness_in(proc.path()), Liveness::Unknown);
    }
}
