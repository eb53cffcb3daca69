//! Devices and processes that a test makes, and that end with it.

use std::io::{BufRead, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rbd::Holders;
use rbd::holder::{HolderKind, Process, Search, Unseen, UnseenReason};

/// Runs a shell script to its end.
pub fn sh(script: &str) -> String {
    let output = Command::new("sh").args(["-euc", script]).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

/// A loop device with a file system, and a directory for the test.
pub struct Disk {
    pub directory: tempfile::TempDir,
    pub device: PathBuf,
}

impl Disk {
    /// An empty device.
    pub fn empty() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let image = directory.path().join("disk.img");
        std::fs::File::create(&image).unwrap().set_len(64 << 20).unwrap();
        let device = sh(&format!("losetup --find --show --partscan {}", image.display())).into();
        let disk = Self { directory, device };
        disk.wait_for_udev();
        disk
    }

    pub fn ext4() -> Self {
        let disk = Self::empty();
        sh(&format!("mkfs.ext4 -q {}", disk.device.display()));
        disk.wait_for_udev();
        disk
    }

    /// Where udev runs, it opens the device to see what is on it: a holder, but not the test's.
    fn wait_for_udev(&self) {
        let holders = self.holders_when(Holders::is_empty);
        assert!(holders.is_empty(), "{holders}");
    }

    /// A directory to mount on.
    pub fn mount_point(&self, name: &str) -> PathBuf {
        let path = self.directory.path().join(name);
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    pub fn search(&self) -> Search {
        Holders::of_node(&self.device).unwrap()
    }

    /// What holds it, asked again while processes that have nothing to do with the test come and go meanwhile.
    pub fn holders(&self) -> Holders {
        self.holders_when(|_| true)
    }

    /// As `holders`, asked again until `is_there`.
    pub fn holders_when(&self, is_there: impl Fn(&Holders) -> bool) -> Holders {
        let start = Instant::now();
        loop {
            let holders = self.search().run().unwrap();
            let gone = |unseen: &Unseen| matches!(unseen, Unseen::Process { reason: UnseenReason::Gone, .. });
            let is_settled = !holders.unseen().iter().any(gone) && is_there(&holders);
            if is_settled || start.elapsed() > Duration::from_secs(10) {
                return holders;
            }
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _freed = Command::new("losetup").arg("--detach").arg(&self.device).stderr(Stdio::null()).status();
    }
}

/// A shell script that runs until the test ends it. It says `ready` when it has done its work, then waits.
pub struct Script {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Script {
    /// In a mount namespace of its own, from which nothing propagates.
    pub fn unshared(script: &str) -> Self {
        Self::run(Command::new("unshare").args(["--mount", "--propagation", "private", "sh", "-euc", script]))
    }

    /// The same on one processor. A namespace's file can be mounted in an older namespace only, and Linux 6.18 tells
    /// their age by numbers that each processor draws from a range of its own.
    pub fn unshared_on_one_processor(script: &str) -> Self {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
        let first = allowed.trim().split(['-', ',']).next().unwrap();
        let arguments = ["--cpu-list", first, "unshare", "--mount", "--propagation", "private", "sh", "-euc", script];
        Self::run(Command::new("taskset").args(arguments))
    }

    /// The same in a PID namespace too, with which what the script has started ends.
    pub fn unshared_with_processes(script: &str) -> Self {
        let arguments = ["--mount", "--propagation", "private", "--pid", "--fork", "--kill-child"];
        Self::run(Command::new("unshare").args(arguments).args(["sh", "-euc", script]))
    }

    pub fn run(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut script = Self { child, output };
        script.wait_until_ready();
        script
    }

    fn wait_until_ready(&mut self) {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
    }

    /// Lets the script go on behind one `read`, until it says `ready` again.
    pub fn go_on(&mut self) {
        self.child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        self.wait_until_ready();
    }

    /// Lets the script go on behind its `read`, and waits for its end.
    pub fn finish(mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().unwrap().success());
    }

    /// Ends it now.
    pub fn end(&mut self) {
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }

    /// The process that a forking `unshare` waits for.
    pub fn child_pid(&self) -> i32 {
        let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", self.pid())).unwrap();
        children.trim().parse().unwrap()
    }

    pub fn pid(&self) -> i32 {
        self.child.id().try_into().unwrap()
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        self.end();
    }
}

/// What was not seen, process 1 left out: some sandboxes keep theirs even from root.
pub fn unseen(holders: &Holders) -> Vec<&Unseen> {
    holders.unseen().iter().filter(|unseen| !matches!(unseen, Unseen::Process { pid: 1, .. })).collect()
}

/// The process of a mount, a user of files or a user of the device.
pub fn process(kind: &HolderKind) -> &Process {
    match kind {
        HolderKind::Mount(mount) => &mount.process,
        HolderKind::Files(user) => &user.process,
        HolderKind::Device(user) => &user.process,
        other => panic!("{other} is no process"),
    }
}

/// Runs `look` in a thread that has given up root.
pub fn as_nobody<T: Send + 'static>(look: impl FnOnce() -> T + Send + 'static) -> T {
    let unprivileged = move || {
        const NOBODY: libc::c_long = 65534;
        // SAFETY: the bare system calls take numbers and no memory, and unlike libc's wrappers change one thread only.
        let changed = unsafe {
            libc::syscall(libc::SYS_setresgid, NOBODY, NOBODY, NOBODY)
                | libc::syscall(libc::SYS_setresuid, NOBODY, NOBODY, NOBODY)
        };
        assert_eq!(changed, 0);
        look()
    };
    std::thread::spawn(unprivileged).join().unwrap()
}
