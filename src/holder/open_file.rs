//! Who has files of the file systems open, or the block devices themselves.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use rustix::path::DecInt;

use super::file_system::FileSystems;
use super::host::{self, FileStatus, Host};
use super::kcmp::{self, Shared};
use super::kind::{DeviceUser, FileUse, FileUser, Holder, HolderKind, UsedFile};
use super::mountinfo::Escaped;
use super::namespace::{self, Readings};
use super::stack::Stack;
use super::task::{self, Task};
use super::unseen::UnseenReason;
use crate::DeviceNumber;

/// What is looked for in every process.
#[derive(Debug)]
pub(super) struct Wanted {
    /// The stack's devices.
    devices: HashSet<DeviceNumber>,
    file_systems: Arc<FileSystems>,
    /// Every mount that was seen, on whatever device.
    mount_ids: HashSet<u64>,
    /// Every mount namespace that was seen.
    namespaces: HashSet<u64>,
    /// The device number of the namespaces' own file system (nsfs), to recognise namespaces that are held open.
    nsfs: Option<DeviceNumber>,
}

/// What was found in a process.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) holders: Vec<Holder>,
    /// Mount namespaces that were not seen otherwise, with the task and the descriptor that has them open.
    pub(super) namespaces: Vec<(u64, Task, i32)>,
}

/// What a file is to the search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Match {
    OnFileSystem { of: DeviceNumber, detached: bool },
    Device(DeviceNumber),
}

impl Wanted {
    pub(super) fn new(host: &Host, stack: &Stack, file_systems: &Arc<FileSystems>, readings: &Readings) -> Self {
        Self {
            devices: stack.layers.iter().map(|layer| layer.device.number).collect(),
            file_systems: Arc::clone(file_systems),
            mount_ids: readings.all.iter().flat_map(|reading| reading.lines().map(|line| line.id)).collect(),
            namespaces: readings.all.iter().map(|reading| reading.namespace).collect(),
            nsfs: host.status("self/ns/mnt").ok().map(|status| status.on),
        }
    }

    fn matches(&self, status: FileStatus) -> Option<Match> {
        if let Some(device) = status.block_device.filter(|device| self.devices.contains(device)) {
            return Some(Match::Device(device));
        }
        // By the mount first: the files of btrfs subvolumes have device numbers that mountinfo does not show.
        let mount = status.mount.and_then(|mount| self.file_systems.mounts.get(&mount));
        let of = *mount.or_else(|| self.file_systems.devices.get(&status.on))?;
        let detached = match status.mount {
            Some(mount) => !self.mount_ids.contains(&mount),
            None => self.file_systems.mounts.values().all(|device| *device != of),
        };
        Some(Match::OnFileSystem { of, detached })
    }
}

/// What a process holds, by any of its threads.
pub(super) fn find(host: &Host, wanted: &Wanted, pid: i32) -> Result<Found, UnseenReason> {
    let mut found = Found::default();
    let leader = Task { pid, tid: None };
    let mut scan = Scan::new(host, wanted, leader);
    let mut memory_seen = false;
    let mut known = BTreeSet::new();
    match scan.directories().and_then(|()| scan.memory()).and_then(|()| scan.descriptors()) {
        Ok(()) => memory_seen = true,
        Err(UnseenReason::Gone) if task::is_zombie(host, pid) => {}
        Err(reason) => return Err(reason),
    }
    scan.finish(&mut found, &mut known);

    for tid in task::other_threads(host, pid).unwrap_or_default() {
        let mut scan = Scan::new(host, wanted, Task { pid, tid: Some(tid) });
        let shares = |what| host.pids_are_ours && kcmp::share(pid, tid, what);
        let seen = (|| {
            if !shares(Shared::Directories) {
                scan.directories()?;
            }
            if !memory_seen {
                scan.memory()?;
                memory_seen = true;
            }
            if !shares(Shared::Files) {
                scan.descriptors()?;
            }
            Ok(())
        })();
        match seen {
            // Threads come and go; one that ended leaves what it used to the others.
            Ok(()) | Err(UnseenReason::Gone) => scan.finish(&mut found, &mut known),
            Err(reason) => return Err(reason),
        }
    }
    Ok(found)
}

/// The files of one task, as they are found.
struct Scan<'a> {
    host: &'a Host,
    wanted: &'a Wanted,
    task: Task,
    files: BTreeMap<Match, Vec<UsedFile>>,
    namespaces: Vec<(u64, Task, i32)>,
}

impl<'a> Scan<'a> {
    fn new(host: &'a Host, wanted: &'a Wanted, task: Task) -> Self {
        Self { host, wanted, task, files: BTreeMap::new(), namespaces: Vec::new() }
    }

    fn directories(&mut self) -> Result<(), UnseenReason> {
        self.link("cwd", FileUse::WorkingDirectory)?;
        self.link("root", FileUse::RootDirectory)
    }

    fn link(&mut self, file: &str, usage: FileUse) -> Result<(), UnseenReason> {
        let path = self.task.path(file);
        let status = self.host.status(&path).map_err(|error| UnseenReason::from(&error))?;
        if let Some(found) = self.wanted.matches(status) {
            self.add(found, usage, self.host.link(&path).unwrap_or_default());
        }
        Ok(())
    }

    /// The program and what is mapped. A kernel thread has neither.
    fn memory(&mut self) -> Result<(), UnseenReason> {
        match self.link("exe", FileUse::Executable) {
            Ok(()) | Err(UnseenReason::Gone) => {}
            Err(reason) => return Err(reason),
        }
        let text = self.host.read(&self.task.path("maps")).map_err(|error| UnseenReason::from(&error))?;
        let mut seen = BTreeSet::new();
        for mapping in text.split(|byte| *byte == b'\n').filter_map(Mapping::parse) {
            let on_file_system = self.wanted.file_systems.devices.contains_key(&mapping.on);
            // The device shown for a mapped block device is that of the directory with its node.
            let perhaps_device = mapping.path.starts_with(b"/dev/") && !mapping.path.starts_with(b"/dev/shm/");
            if !(on_file_system || perhaps_device) || !seen.insert((mapping.on, mapping.inode)) {
                continue;
            }
            let file = self.task.path("map_files");
            let status = self.host.status(format!("{file}/{:x}-{:x}", mapping.start, mapping.end));
            let (on, inode) = (mapping.on, mapping.inode);
            let status = status.unwrap_or(FileStatus { on, inode, mount: None, block_device: None, links: 0 });
            if let Some(found) = self.wanted.matches(status) {
                self.add(found, FileUse::Mapping, Escaped(mapping.path).path());
            }
        }
        Ok(())
    }

    fn descriptors(&mut self) -> Result<(), UnseenReason> {
        let directory = self.host.directory(&self.task.path("fd")).map_err(|error| UnseenReason::from(&error))?;
        let descriptors = host::numbered(&directory).map_err(|error| UnseenReason::from(&error))?;
        for descriptor in descriptors {
            let name = DecInt::new(descriptor);
            let name = name.as_c_str();
            let status = match host::status_at(&directory, name).map_err(|error| UnseenReason::from(&error)) {
                Ok(status) => status,
                // Closed meanwhile.
                Err(UnseenReason::Gone) => continue,
                Err(reason) => return Err(reason),
            };
            if let Some(found) = self.wanted.matches(status) {
                let path = host::link_at(&directory, name).unwrap_or_default();
                self.add(found, FileUse::Descriptor(descriptor), path);
            } else if self.wanted.nsfs == Some(status.on) && !self.wanted.namespaces.contains(&status.inode) {
                let link = host::link_at(&directory, name).unwrap_or_default();
                if let Some(number) = namespace::mount_namespace(&link) {
                    self.namespaces.push((number, self.task, descriptor));
                }
            }
        }
        Ok(())
    }

    fn add(&mut self, found: Match, usage: FileUse, path: PathBuf) {
        self.files.entry(found).or_default().push(UsedFile { usage, path });
    }

    fn finish(mut self, into: &mut Found, known: &mut BTreeSet<(Match, UsedFile)>) {
        if !self.host.pids_are_ours {
            // Whether threads share a table cannot be asked: what two of them have in the same way is taken for shared.
            for (found, files) in &mut self.files {
                files.retain(|file| known.insert((*found, file.clone())));
            }
            self.files.retain(|_, files| !files.is_empty());
        }
        into.namespaces.extend(self.namespaces);
        if self.files.is_empty() {
            return;
        }
        let process = self.task.describe(self.host);
        for (found, files) in self.files {
            let process = process.clone();
            let (on, kind) = match found {
                Match::OnFileSystem { of, detached } => (of, HolderKind::Files(FileUser { process, detached, files })),
                Match::Device(device) => (device, HolderKind::Device(DeviceUser { process, files })),
            };
            into.holders.push(Holder { on, kind });
        }
    }
}

/// A line of `/proc/PID/maps` (`proc_pid_maps(5)`) that maps a file.
#[derive(Debug, PartialEq, Eq)]
struct Mapping<'a> {
    start: u64,
    end: u64,
    on: DeviceNumber,
    inode: u64,
    path: &'a [u8],
}

impl<'a> Mapping<'a> {
    /// `START-END PERMISSIONS OFFSET MAJOR:MINOR INODE PATH`, the numbers before the inode hexadecimal.
    fn parse(line: &'a [u8]) -> Option<Self> {
        let mut fields = line.splitn(6, |byte| *byte == b' ');
        let range = fields.next()?;
        let (device, inode, path) = (fields.nth(2)?, fields.next()?, fields.next()?);
        // Memory without a file.
        if inode == b"0" {
            return None;
        }
        let (start, end) = pair(range, b'-')?;
        let (major, minor) = pair(device, b':')?;
        Some(Self {
            start,
            end,
            on: DeviceNumber::new(major.try_into().ok()?, minor.try_into().ok()?),
            inode: std::str::from_utf8(inode).ok()?.parse().ok()?,
            path: path.trim_ascii_start(),
        })
    }
}

fn pair(text: &[u8], between: u8) -> Option<(u64, u64)> {
    let at = text.iter().position(|byte| *byte == between)?;
    let number = |digits| u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok();
    Some((number(&text[..at])?, number(&text[at + 1..])?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_mapping_is_read_with_its_device() {
        let line = b"7f1c00000000-7f1c00021000 r-xp 00026000 fe:10 1234                       /data/a b (deleted)";
        assert_eq!(
            Mapping::parse(line),
            Some(Mapping {
                start: 0x7f1c_0000_0000,
                end: 0x7f1c_0002_1000,
                on: DeviceNumber::new(254, 16),
                inode: 1234,
                path: b"/data/a b (deleted)",
            })
        );
    }

    #[test]
    fn memory_without_a_file_is_no_mapping() {
        for line in
            ["7ffd0000-7ffd1000 rw-p 00000000 00:00 0                 [stack]", "", "x", "1-2 r-xp 0 zz:00 5 /a"]
        {
            assert_eq!(Mapping::parse(line.as_bytes()), None, "{line}");
        }
    }

    proptest! {
        #[test]
        fn no_line_makes_it_panic(line in proptest::collection::vec(any::<u8>(), 0..120)) {
            Mapping::parse(&line);
        }

        #[test]
        fn nothing_like_a_line_makes_it_panic(line in "[0-9a-f]{0,20}-[0-9a-f]{0,20} r-xp 0 [0-9a-f:]{0,12} [0-9]{0,24} [ /a]{0,9}") {
            Mapping::parse(line.as_bytes());
        }
    }
}
