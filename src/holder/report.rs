//! Holders as text: one line for each, and a tree of all for people.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::Holders;
use super::kind::{
    DeviceUser, DmTarget, FileUse, FileUser, Holder, HolderKind, KernelUser, Mount, Process, StackedDevice,
    StackedDriver, UsedFile,
};
use super::unseen::{ProcessPart, Unseen, UnseenReason};
use crate::DeviceNumber;
use crate::tree;

/// So many files or processes are named, the others are counted.
const NAMED: usize = 5;

impl fmt::Display for Holders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let device = match &self.name {
            Some(name) => format!("{name} ({})", self.device),
            None => format!("device {}", self.device),
        };
        match (self.is_empty(), self.is_complete()) {
            (true, true) => write!(f, "{device} is held by nothing on this host")?,
            (true, false) => write!(f, "{device} is held by nothing that could be seen")?,
            (false, _) => {
                write!(f, "{device} is held by")?;
                self.branch(f, self.device, "")?;
            }
        }
        if !self.is_complete() {
            f.write_str("\nnot seen")?;
            let mut lines = unseen_lines(&self.unseen).into_iter().peekable();
            while let Some(line) = lines.next() {
                tree::node(f, "", lines.peek().is_none(), false, &[line])?;
            }
        }
        Ok(())
    }
}

impl Holders {
    /// The branch of a tree that has the device itself as its stem.
    #[cfg(feature = "librados")]
    pub(crate) fn write_branch(&self, f: &mut fmt::Formatter<'_>, indent: &str) -> fmt::Result {
        self.branch(f, self.device, indent)
    }

    /// What holds `device`, each with what holds it in turn.
    fn branch(&self, f: &mut fmt::Formatter<'_>, device: DeviceNumber, indent: &str) -> fmt::Result {
        let mut holders = self.holders.iter().filter(|holder| holder.on == device).peekable();
        while let Some(holder) = holders.next() {
            let is_last = holders.peek().is_none();
            let upper = match &holder.kind {
                HolderKind::Stacked(stacked) => Some(stacked.number),
                _ => None,
            };
            let has_branch = upper.is_some_and(|upper| self.holders.iter().any(|holder| holder.on == upper));
            tree::node(f, indent, is_last, has_branch, &holder.kind.lines())?;
            if let Some(upper) = upper {
                self.branch(f, upper, &tree::below(indent, is_last))?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Holder {
    /// One line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (on {})", self.kind, self.on)
    }
}

impl fmt::Display for HolderKind {
    /// One line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.lines().join(", "))
    }
}

impl HolderKind {
    /// What it is, then whose.
    fn lines(&self) -> Vec<String> {
        match self {
            Self::Files(user) => user.lines(),
            Self::Kernel(user) => vec![user.to_string()],
            Self::Mount(mount) => mount.lines(),
            Self::Device(user) => user.lines(),
            Self::Swap(swap) => {
                vec![format!("swap {} {}", if swap.is_file { "file" } else { "on" }, Shown(&swap.path))]
            }
            Self::Stacked(device) => vec![device.to_string()],
        }
    }
}

impl Mount {
    fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!("mount {}", Shown(&self.mount_point))];
        let mut about = format!("{}, {}", self.file_system, self.propagation);
        if self.read_only {
            about.push_str(", read-only");
        }
        if self.root != Path::new("/") {
            let _ = write!(about, ", of its directory {}", Shown(&self.root));
        }
        if self.mount_point_deleted {
            about.push_str(", mount point removed");
        }
        lines.push(about);
        if self.in_own_namespace {
            lines.push("in this mount namespace".into());
        } else {
            lines.push(format!("in mount namespace {} of {}", self.namespace, self.process));
            lines.extend(self.process.workload());
        }
        if let Some(submounts) = list(self.submounts.iter().map(|path| Shown(path).to_string())) {
            lines.push(format!("under it: {submounts}"));
        }
        lines
    }
}

impl FileUser {
    fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!("{} uses {}", self.process, list_files(&self.files))];
        if self.detached {
            lines.push("by a mount that is gone (unmounted lazily) or unseen".into());
        }
        lines.extend(self.process.workload());
        lines
    }
}

impl DeviceUser {
    fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!("{} has the device open: {}", self.process, list_files(&self.files))];
        lines.extend(self.process.workload());
        lines
    }
}

/// The first few, and how many more.
pub(crate) fn list_files(files: &[UsedFile]) -> String {
    list(files.iter().map(UsedFile::to_string)).unwrap_or_default()
}

impl fmt::Display for UsedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.usage, Shown(&self.path))
    }
}

impl fmt::Display for FileUse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WorkingDirectory => f.write_str("working directory"),
            Self::RootDirectory => f.write_str("root directory"),
            Self::Executable => f.write_str("program"),
            Self::Descriptor(descriptor) => write!(f, "fd {descriptor}"),
            Self::Mapping => f.write_str("mapped file"),
        }
    }
}

impl fmt::Display for Process {
    /// `pid 3091 (cadvisor)`, and `thread 3095 of pid 3091 (cadvisor)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(tid) = self.tid {
            write!(f, "thread {tid} of ")?;
        }
        write!(f, "pid {}", self.pid)?;
        if !self.comm.is_empty() {
            write!(f, " ({})", Shown(Path::new(&self.comm)))?;
        }
        Ok(())
    }
}

impl Process {
    /// The pod and the container, the container's id as short as `crictl` and `docker` show it.
    fn workload(&self) -> Option<String> {
        let pod = self.pod.as_ref().map(|pod| format!("pod {pod}"));
        let container = self.container.as_ref().map(|container| {
            let is_hash = container.len() == 64 && container.is_ascii();
            format!("container {}", if is_hash { &container[..12] } else { container })
        });
        let parts: Vec<String> = pod.into_iter().chain(container).collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }
}

impl fmt::Display for KernelUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FileSystem { file_system } => {
                write!(f, "live {file_system} file system without a mount or user that can be seen")
            }
            Self::NfsExport { path, client } => write!(f, "NFS export of {} to {client}", Shown(path)),
            Self::Bcache => f.write_str("registered with bcache"),
        }
    }
}

impl fmt::Display for StackedDevice {
    /// `dm-5 luks-rbd (crypt, 253:5)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        let number = self.number;
        match &self.driver {
            StackedDriver::Partition => write!(f, " (partition, {number})"),
            StackedDriver::Dm { name, target, suspended, .. } => {
                let suspended = if *suspended { ", suspended" } else { "" };
                write!(f, " {name} ({target}, {number}{suspended})")
            }
            StackedDriver::Loop { backing_file } => write!(f, " (loop, {number}) of {}", Shown(backing_file)),
            StackedDriver::Md { level } => write!(f, " (md {level}, {number})"),
            StackedDriver::Bcache => write!(f, " (bcache, {number})"),
            StackedDriver::Other => write!(f, " ({number})"),
        }
    }
}

impl fmt::Display for DmTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Crypt => "crypt",
            Self::Lvm => "LVM",
            Self::Multipath => "multipath",
            Self::Partition => "dm partition",
            Self::Other => "dm",
        })
    }
}

/// The processes that share a reason are one line.
fn unseen_lines(unseen: &[Unseen]) -> Vec<String> {
    let mut processes: BTreeMap<(UnseenReason, ProcessPart), Vec<i32>> = BTreeMap::new();
    let mut lines = Vec::new();
    for unseen in unseen {
        match unseen {
            Unseen::Process { pid, part, reason } => processes.entry((*reason, *part)).or_default().push(*pid),
            other => lines.push(other.to_string()),
        }
    }
    for ((reason, part), pids) in processes {
        let plural = if pids.len() == 1 { "process" } else { "processes" };
        let named = list(pids.iter().map(i32::to_string)).unwrap_or_default();
        lines.push(format!("{part} of {} {plural} ({reason}): {named}", pids.len()));
    }
    lines
}

impl fmt::Display for Unseen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process { pid, part, reason } => write!(f, "{part} of pid {pid} ({reason})"),
            Self::File { path, reason } => write!(f, "{} ({reason})", Shown(path)),
            Self::Namespace { number, file, process } => {
                let file = Shown(file);
                write!(f, "mount namespace {number}: no process is in it, {file} keeps it (seen by {process})")
            }
            Self::BackingFile { user, path } => write!(f, "where {} is, the file of {user}", Shown(path)),
            Self::BtrfsMount { source, process } => {
                write!(f, "devices of the btrfs mount of {source} (seen by {process})")
            }
            Self::FileSystemUser { file_system } => write!(f, "what keeps the {file_system} file system live"),
            Self::HiddenProcesses => f.write_str("other users' processes: proc is mounted with hidepid"),
            Self::OtherPidNamespaces => f.write_str("processes outside this PID namespace"),
            Self::FilesNotAskedFor => f.write_str("users of files and of the device: not asked for"),
        }
    }
}

impl fmt::Display for ProcessPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mounts => "mounts",
            Self::Files => "files",
        })
    }
}

impl fmt::Display for UnseenReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PermissionDenied => f.write_str("permission denied"),
            Self::Gone => f.write_str("gone"),
            Self::TimedOut => f.write_str("timed out"),
            Self::NotUnderstood => f.write_str("not understood"),
            Self::Errno(errno) => write!(f, "errno {errno}"),
        }
    }
}

/// The first few, and how many more; `None` for none.
fn list(mut items: impl ExactSizeIterator<Item = String>) -> Option<String> {
    let count = items.len();
    let mut text = items.next()?;
    for item in items.take(NAMED - 1) {
        text.push_str(", ");
        text.push_str(&item);
    }
    if count > NAMED {
        let _ = write!(text, " and {} more", count - NAMED);
    }
    Some(text)
}

/// A path or name on a terminal: what could break or forge a line is written as the kernel writes it in mountinfo.
pub(crate) struct Shown<'a>(pub(crate) &'a Path);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.as_os_str().as_bytes().utf8_chunks() {
            for character in chunk.valid().chars() {
                if character.is_control() || character == '\\' {
                    let mut buffer = [0; 4];
                    character.encode_utf8(&mut buffer).bytes().try_for_each(|byte| write!(f, "\\{byte:03o}"))?;
                } else {
                    f.write_char(character)?;
                }
            }
            chunk.invalid().iter().try_for_each(|byte| write!(f, "\\{byte:03o}"))?;
        }
        Ok(())
    }
}
