//! What a search could not look at.

use std::io;
use std::path::PathBuf;

use super::kind::Process;

/// Something that could hold the device and was not seen.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(tag = "what", rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Unseen {
    /// A part of a process.
    Process {
        /// Which process.
        pid: i32,
        /// Which part of it.
        part: ProcessPart,
        /// Why not.
        reason: UnseenReason,
    },
    /// A file of proc or sysfs that should be there.
    File {
        /// The file.
        #[cfg_attr(feature = "serde", serde(serialize_with = "super::kind::lossy"))]
        path: PathBuf,
        /// Why not.
        reason: UnseenReason,
    },
    /// A mount namespace that no process is in and that a file keeps alive: its mounts cannot be read from outside.
    Namespace {
        /// Its number, as in `/proc/PID/ns/mnt`.
        number: u64,
        /// The file: where the namespace is bind-mounted, or a link below proc that has it open.
        #[cfg_attr(feature = "serde", serde(serialize_with = "super::kind::lossy"))]
        file: PathBuf,
        /// A process that sees the file.
        process: Process,
    },
    /// A loop device, swap file or export of which it could not be told which device its file is on: the file is in no
    /// namespace that could be read.
    BackingFile {
        /// What uses the file, such as `loop3`.
        user: String,
        /// The file.
        #[cfg_attr(feature = "serde", serde(serialize_with = "super::kind::lossy"))]
        path: PathBuf,
    },
    /// A btrfs mount of which it could not be told which devices it is on.
    BtrfsMount {
        /// Its source, as in mountinfo.
        source: String,
        /// A process that sees it.
        process: Process,
    },
    /// What keeps a live file system without a mount; that it is live is in the list of holders.
    FileSystemUser {
        /// The file system's type, such as `ext4`.
        file_system: String,
    },
    /// proc is mounted with `hidepid`: other users' processes are not in it.
    HiddenProcesses,
    /// proc shows the processes of one container only.
    OtherPidNamespaces,
    /// Users of files and of the device: mounts alone were asked for.
    FilesNotAskedFor,
}

/// A part of a process that can hold a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum ProcessPart {
    /// Which mount namespace and root it has, or the mounts in there.
    Mounts,
    /// Its directories, its program, the files that it has open and those that it has mapped.
    Files,
}

/// Why something was not seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum UnseenReason {
    /// It needs root, or CAP_SYS_PTRACE in the process's user namespace (EACCES, EPERM).
    PermissionDenied,
    /// It ended while it was looked at, and may have left what it held to another that could not be looked at either.
    Gone,
    /// The deadline passed first, perhaps because reading it hangs.
    TimedOut,
    /// It held something that is not understood.
    NotUnderstood,
    /// Another errno.
    Errno(i32),
}

impl From<&io::Error> for UnseenReason {
    fn from(error: &io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::EACCES | libc::EPERM) => Self::PermissionDenied,
            Some(libc::ENOENT | libc::ESRCH) => Self::Gone,
            Some(errno) => Self::Errno(errno),
            None => Self::NotUnderstood,
        }
    }
}
