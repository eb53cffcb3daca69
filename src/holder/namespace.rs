//! The mounts in every mount namespace: one reading of mountinfo for each namespace and root that a task has.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::host::Host;
use super::kind::Process;
use super::mountinfo::{self, MountLine};
use super::parallel;
use super::task::{self, Task, View};
use super::unseen::{ProcessPart, Unseen, UnseenReason};
use crate::deadline::Deadline;

/// The mountinfo of one namespace, as seen from one root.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) namespace: u64,
    /// The task with the lowest number among those that see this.
    pub(super) task: Task,
    /// Who that is.
    pub(super) process: Process,
    text: Vec<u8>,
    /// Whether every line of it is one of mountinfo.
    is_understood: bool,
}

impl Reading {
    /// Its lines, those left out that are no line of mountinfo.
    pub(super) fn lines(&self) -> impl Iterator<Item = MountLine<'_>> {
        mountinfo::lines(&self.text).flatten()
    }

    /// The mount that `path` is on, by the mount points alone: the file system is not touched.
    pub(super) fn mount_of(&self, path: &Path) -> Option<MountLine<'_>> {
        // A later mount covers an earlier one at the same place.
        self.lines()
            .map(|line| (line.mount_point.path(), line))
            .filter(|(mount_point, _)| path.starts_with(mount_point))
            .max_by_key(|(mount_point, _)| mount_point.components().count())
            .map(|(_, line)| line)
    }
}

/// All that could be read, the caller's own first.
#[derive(Debug)]
pub(super) struct Readings {
    pub(super) all: Vec<Reading>,
    /// The namespaces and roots that were read.
    pub(super) views: HashSet<View>,
    /// The namespace of the thread that asked.
    pub(super) own_namespace: Option<u64>,
}

impl Readings {
    /// Reads them, and says which processes could not be read.
    pub(super) fn read(host: &Arc<Host>, pids: &Arc<Vec<i32>>, deadline: Deadline, unseen: &mut Vec<Unseen>) -> Self {
        let mut tasks: BTreeMap<View, Vec<Task>> = BTreeMap::new();
        let reader = Arc::clone(host);
        let answers = parallel::each(pids, deadline, move |pid| task::views(&reader, *pid));
        for (pid, answer) in pids.iter().zip(answers) {
            match answer.unwrap_or(Err(UnseenReason::TimedOut)) {
                Ok(views) => views.into_iter().for_each(|(view, task)| tasks.entry(view).or_default().push(task)),
                Err(reason) => unseen.push(Unseen::Process { pid: *pid, part: ProcessPart::Mounts, reason }),
            }
        }

        let own = View::of(host, "thread-self").or_else(|_| View::of(host, "self")).ok();
        let mut views: Vec<(View, Vec<Task>)> = tasks.into_iter().collect();
        views.sort_by_key(|(view, tasks)| (Some(*view) != own, tasks[0]));
        let views = Arc::new(views);
        let reader = Arc::clone(host);
        let answers = parallel::each(&views, deadline, move |(view, tasks)| read_one(&reader, *view, tasks));
        let mut all = Vec::with_capacity(views.len());
        let mut read = HashSet::with_capacity(views.len());
        for ((view, tasks), answer) in views.iter().zip(answers) {
            match answer.unwrap_or(Err(UnseenReason::TimedOut)) {
                Ok(reading) => {
                    if !reading.is_understood {
                        let reason = UnseenReason::NotUnderstood;
                        unseen.push(Unseen::Process { pid: reading.task.pid, part: ProcessPart::Mounts, reason });
                    }
                    read.insert(*view);
                    all.push(reading);
                }
                Err(reason) => {
                    unseen.push(Unseen::Process { pid: tasks[0].pid, part: ProcessPart::Mounts, reason });
                }
            }
        }
        let readings = Self { all, views: read, own_namespace: own.map(|view| view.namespace) };
        readings.report_namespaces_without_process(&views, unseen);
        readings
    }

    /// A namespace can outlive its processes by a bind mount of its file: mountinfo shows that as a mount of type nsfs
    /// whose root is `mnt:[NUMBER]`.
    fn report_namespaces_without_process(&self, views: &[(View, Vec<Task>)], unseen: &mut Vec<Unseen>) {
        let mut known: HashSet<u64> = views.iter().map(|(view, _)| view.namespace).collect();
        for reading in &self.all {
            for line in reading.lines().filter(|line| line.file_system.0 == b"nsfs") {
                let Some(number) = mount_namespace(&line.root.path()).filter(|number| known.insert(*number)) else {
                    continue;
                };
                let (file, process) = (line.mount_point.path(), reading.process.clone());
                unseen.push(Unseen::Namespace { number, file, process });
            }
        }
    }

    /// What is mounted on or below each of the mounts in `ids`, as seen from `reading`.
    pub(super) fn submounts(reading: &Reading, ids: &HashSet<u64>) -> HashMap<u64, Vec<PathBuf>> {
        let mut submounts: HashMap<u64, Vec<PathBuf>> = HashMap::new();
        for line in reading.lines().filter(|line| line.parent != line.id && ids.contains(&line.parent)) {
            submounts.entry(line.parent).or_default().push(line.mount_point.path());
        }
        submounts
    }
}

/// The number in the root of a bind-mounted mount namespace.
pub(super) fn mount_namespace(link: &Path) -> Option<u64> {
    link.to_str()?.starts_with("mnt:[").then(|| super::host::namespace_number(link))?
}

/// By the first of `tasks` that can still be read: those that share a view all read the same.
fn read_one(host: &Host, view: View, tasks: &[Task]) -> Result<Reading, UnseenReason> {
    let mut reason = UnseenReason::Gone;
    for task in tasks {
        match host.read(&task.path("mountinfo")) {
            Ok(text) => {
                let process = task.describe(host);
                let is_understood = mountinfo::lines(&text).all(|line| line.is_ok());
                return Ok(Reading { namespace: view.namespace, task: *task, process, text, is_understood });
            }
            // A task that is ending has no namespaces any more (`mounts_open_common` in fs/proc_namespace.c).
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => reason = UnseenReason::Gone,
            Err(error) => reason = UnseenReason::from(&error),
        }
    }
    Err(reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_ended_between_two_looks_is_gone() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let host = Host::open(Path::new("/proc"), Path::new("/sys")).unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        while !task::is_zombie(&host, pid) {
            std::thread::yield_now();
        }
        let view = View::of(&host, "self").unwrap();
        assert_eq!(read_one(&host, view, &[Task { pid, tid: None }]).unwrap_err(), UnseenReason::Gone);
        child.wait().unwrap();
    }
}
