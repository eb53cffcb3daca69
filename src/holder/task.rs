//! Processes and their threads: which mount namespace and root each has, and who it is.

use std::io;

use super::cgroup::Cgroup;
use super::host::{self, FileStatus, Host};
use super::kind::Process;
use super::unseen::UnseenReason;

/// A process, or one thread of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Task {
    pub(super) pid: i32,
    pub(super) tid: Option<i32>,
}

impl Task {
    /// The path below proc of one of its files.
    pub(super) fn path(self, file: &str) -> String {
        match self.tid {
            Some(tid) => format!("{}/task/{tid}/{file}", self.pid),
            None => format!("{}/{file}", self.pid),
        }
    }

    /// Who it is; what cannot be read any more is left empty.
    pub(super) fn describe(self, host: &Host) -> Process {
        let comm = host.read(&self.path("comm")).unwrap_or_default();
        let cgroup = Cgroup::parse(&host.read(&self.path("cgroup")).unwrap_or_default());
        Process {
            pid: self.pid,
            tid: self.tid,
            comm: String::from_utf8_lossy(comm.strip_suffix(b"\n").unwrap_or(&comm)).into_owned(),
            container: cgroup.container,
            pod: cgroup.pod,
        }
    }
}

/// What a task's mountinfo depends on. The path of the root does not tell roots apart (a mount can cover another), the
/// directory and its mount do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct View {
    pub(super) namespace: u64,
    root: (crate::DeviceNumber, u64, Option<u64>),
}

impl View {
    pub(super) fn of(host: &Host, task: &str) -> io::Result<Self> {
        let namespace = host.namespace(&format!("{task}/ns/mnt"))?;
        let FileStatus { on, inode, mount, .. } = host.status(format!("{task}/root"))?;
        Ok(Self { namespace, root: (on, inode, mount) })
    }
}

/// The threads of a process other than its first; `None` where there is one thread only, which is most often so.
pub(super) fn other_threads(host: &Host, pid: i32) -> io::Result<Vec<i32>> {
    let directory = format!("{pid}/task");
    // A directory's links are itself, its name above and one for each directory in it: here one for each thread.
    if host.status(&directory)?.links == 3 {
        return Ok(Vec::new());
    }
    let mut threads = host::numbered(host.directory(&directory)?)?;
    threads.retain(|tid| *tid != pid);
    Ok(threads)
}

/// The different views of a process's threads, each with the first thread that has it.
///
/// A zombie has none: it holds nothing. But the first thread of a process can have ended before the others.
pub(super) fn views(host: &Host, pid: i32) -> Result<Vec<(View, Task)>, UnseenReason> {
    let mut views: Vec<(View, Task)> = Vec::new();
    let mut add = |view, task| {
        if views.iter().all(|(other, _)| *other != view) {
            views.push((view, task));
        }
    };
    let leader = View::of(host, &pid.to_string());
    let threads = other_threads(host, pid);
    if let Ok(view) = leader {
        add(view, Task { pid, tid: None });
    }
    for tid in threads.as_deref().unwrap_or_default() {
        let task = Task { pid, tid: Some(*tid) };
        match View::of(host, &format!("{pid}/task/{tid}")) {
            Ok(view) => add(view, task),
            // Threads come and go; one that ended leaves what it used to the others.
            Err(error) if UnseenReason::from(&error) == UnseenReason::Gone => {}
            Err(error) => return Err(UnseenReason::from(&error)),
        }
    }
    match (leader, threads) {
        (Ok(_), Ok(_)) => Ok(views),
        (Err(error), threads) => match UnseenReason::from(&error) {
            UnseenReason::Gone if is_zombie(host, pid) && threads.is_ok() => Ok(views),
            reason => Err(reason),
        },
        (Ok(_), Err(error)) => Err(UnseenReason::from(&error)),
    }
}

/// Whether a process has ended and only waits to be fetched by its parent (`proc_pid_stat(5)`, state Z or X).
pub(super) fn is_zombie(host: &Host, pid: i32) -> bool {
    let stat = host.read(&format!("{pid}/stat")).unwrap_or_default();
    // The state comes after the command, which is in brackets and may have brackets in it.
    let state = stat.iter().rposition(|byte| *byte == b')').and_then(|end| stat.get(end + 2));
    matches!(state, Some(b'Z' | b'X'))
}
