//! Trees that stand for proc and sysfs.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use rbd::holder::Search;
use rbd::{DeviceNumber, Holder, Holders};

/// A host whose proc shows every process and nothing else of note. Each process has its root at `/sys`, a directory on
/// a file system that no test asks about, until the test says otherwise.
pub struct Tree {
    directory: tempfile::TempDir,
}

/// A process of a [`Tree`].
pub struct ProcessDirectory(pub PathBuf);

impl Tree {
    pub fn new() -> Self {
        // In memory where there is such a place: some trees have many files.
        let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
        let tree = Self { directory: directory.unwrap() };
        for directory in ["proc", "sys/dev/block", "sys/devices", "sys/fs", "elsewhere"] {
            fs::create_dir_all(tree.path(directory)).unwrap();
        }
        tree
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.directory.path().join(path)
    }

    /// Writes a file, its directories made first.
    pub fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// A process with one thread. In `mountinfo`, the mounts' numbers start at a million, so that none is that of the
    /// real mount which this tree is on. The first that is made is the one that asks.
    pub fn process(&self, pid: i32, comm: &str, namespace: u64, mountinfo: &str) -> ProcessDirectory {
        let process = ProcessDirectory(self.path(&format!("proc/{pid}")));
        process.fill(comm, namespace, mountinfo);
        fs::create_dir_all(process.0.join(format!("task/{pid}"))).unwrap();
        symlink("pid:[4026531836]", process.0.join("ns/pid")).unwrap();
        if !self.path("proc/self").exists() {
            symlink(pid.to_string(), self.path("proc/self")).unwrap();
        }
        process
    }

    /// A block device, such as `rbd0`, or `rbd0/rbd0p1` for a partition.
    pub fn device(&self, name: &str, number: &str) {
        let directory = format!("sys/devices/{name}");
        self.write(&format!("{directory}/dev"), format!("{number}\n"));
        fs::create_dir_all(self.path(&format!("{directory}/holders"))).unwrap();
        if name.contains('/') {
            self.write(&format!("{directory}/partition"), "1\n");
        }
        symlink(format!("../../devices/{name}"), self.path(&format!("sys/dev/block/{number}"))).unwrap();
    }

    /// A device-mapper device on others.
    pub fn dm(&self, name: &str, number: &str, dm_name: &str, uuid: &str, on: &[&str]) {
        self.device(name, number);
        self.write(&format!("sys/devices/{name}/dm/name"), format!("{dm_name}\n"));
        self.write(&format!("sys/devices/{name}/dm/uuid"), format!("{uuid}\n"));
        self.write(&format!("sys/devices/{name}/dm/suspended"), "0\n");
        on.iter().for_each(|lower| self.stack(name, lower));
    }

    /// Makes `upper` a holder of `lower`.
    pub fn stack(&self, upper: &str, lower: &str) {
        let link = self.path(&format!("sys/devices/{lower}/holders/{upper}"));
        symlink(self.path(&format!("sys/devices/{upper}")), link).unwrap();
    }

    pub fn loop_device(&self, name: &str, number: &str, backing_file: &str) {
        self.device(name, number);
        self.write(&format!("sys/devices/{name}/loop/backing_file"), format!("{backing_file}\n"));
    }

    pub fn search(&self, device: &str) -> Search {
        Holders::of(device.parse().unwrap()).root(self.path("proc"), self.path("sys"))
    }

    pub fn holders(&self, device: &str) -> Holders {
        self.search(device).run().unwrap()
    }
}

impl ProcessDirectory {
    fn fill(&self, comm: &str, namespace: u64, mountinfo: &str) {
        fs::create_dir_all(self.0.join("ns")).unwrap();
        fs::create_dir_all(self.0.join("fd")).unwrap();
        self.write("comm", &format!("{comm}\n"));
        self.write("mountinfo", mountinfo);
        self.write("maps", "");
        self.write("cgroup", "0::/\n");
        symlink(format!("mnt:[{namespace}]"), self.0.join("ns/mnt")).unwrap();
        self.link("root", "/sys");
        self.link("cwd", "/sys");
    }

    pub fn write(&self, file: &str, text: &str) {
        fs::write(self.0.join(file), text).unwrap();
    }

    /// Makes one of its links, or makes it anew.
    pub fn link(&self, file: &str, target: impl AsRef<Path>) {
        let _absent = fs::remove_file(self.0.join(file));
        symlink(target, self.0.join(file)).unwrap();
    }

    /// A thread beside the first.
    pub fn thread(&self, tid: i32, namespace: u64, mountinfo: &str) -> ProcessDirectory {
        let thread = ProcessDirectory(self.0.join(format!("task/{tid}")));
        thread.fill("worker", namespace, mountinfo);
        let leader = ProcessDirectory(self.0.join(format!("task/{}", self.0.file_name().unwrap().display())));
        let _made = fs::create_dir_all(&leader.0);
        thread
    }
}

/// What a test compares: one short word or more for each holder.
pub fn summary(holders: &Holders) -> Vec<String> {
    holders.iter().map(one).collect()
}

fn one(holder: &Holder) -> String {
    use rbd::holder::{HolderKind, KernelUser};
    let on = holder.on;
    let mut text = String::new();
    match &holder.kind {
        HolderKind::Mount(mount) => {
            write!(text, "mount {} pid {} on {on}", mount.mount_point.display(), mount.process.pid)
        }
        HolderKind::Files(user) => {
            let gone = if user.detached { " detached" } else { "" };
            let files: Vec<_> = user.files.iter().map(|file| file.usage.to_string()).collect();
            write!(text, "files{gone} pid {} on {on}: {}", user.process.pid, files.join(", "))
        }
        HolderKind::Stacked(device) => write!(text, "{device} on {on}"),
        HolderKind::Swap(swap) => write!(text, "swap {} on {on}", swap.path.display()),
        HolderKind::Kernel(KernelUser::FileSystem { file_system }) => write!(text, "live {file_system} on {on}"),
        other => write!(text, "{other} on {on}"),
    }
    .unwrap();
    text
}

/// The device that a file of this machine is on.
pub fn device_of(path: &Path) -> DeviceNumber {
    use std::os::unix::fs::MetadataExt;
    DeviceNumber::from_dev(fs::metadata(path).unwrap().dev())
}

/// The number of the mount that a file of this machine is on.
pub fn mount_of(path: &Path) -> u64 {
    use rustix::fs::{AtFlags, CWD, StatxFlags};
    rustix::fs::statx(CWD, path, AtFlags::empty(), StatxFlags::MNT_ID).unwrap().stx_mnt_id
}
