//! The test cluster, the real `rbd`, `rados` and `ceph` programs on it, and clusters that a test may damage.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

const HOLD_IMAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cluster/hold-image");

/// A cluster made by `tests/cluster/dev-cluster`: one mon, one OSD, cephx, a pool `rbd`.
#[derive(Debug)]
pub struct TestCluster {
    dir: PathBuf,
}

impl TestCluster {
    /// The cluster that all tests share. Its daemons stay up, and each test makes images and pools of its own.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<TestCluster> = OnceLock::new();
        SHARED.get_or_init(|| {
            let dir = std::env::var_os("RBD_TEST_CLUSTER").expect("no test cluster: run `tests/run cluster`");
            TestCluster { dir: dir.into() }
        })
    }

    pub fn conf(&self) -> PathBuf {
        self.dir.join("ceph.conf")
    }

    /// The keyring of client.admin.
    pub fn keyring(&self) -> PathBuf {
        self.dir.join("keyring")
    }

    /// The mon's address for msgr v1, as `ip:port`.
    pub fn mon_v1(&self) -> String {
        self.mon_address("v1:")
    }

    /// The mon's address for msgr v2, as `ip:port`.
    pub fn mon_v2(&self) -> String {
        self.mon_address("v2:")
    }

    fn mon_address(&self, version: &str) -> String {
        let conf = std::fs::read_to_string(self.conf()).unwrap();
        let mon_host = conf.lines().find_map(|line| line.strip_prefix("mon host = [")?.strip_suffix(']')).unwrap();
        mon_host.split(',').find_map(|address| address.strip_prefix(version)).unwrap().to_owned()
    }

    /// A program on this cluster and on no other. It ends within a minute, since one that waits for a dead cluster
    /// would wait for ever.
    pub fn command<A: AsRef<OsStr>>(&self, program: &str, args: impl IntoIterator<Item = A>) -> Command {
        let mut command = Command::new("timeout");
        command.args(["--foreground", "--kill-after=2", "60", program]).args(args).stdin(Stdio::null());
        command.env("CEPH_CONF", self.conf()).env_remove("CEPH_ARGS").env_remove("CEPH_KEYRING");
        command
    }

    /// What `rbd ARGS` prints. Panics with its message if it fails, as the three below do.
    pub fn rbd<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> String {
        stdout(&mut self.command("rbd", args))
    }

    /// What `rados ARGS` prints.
    pub fn rados<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> String {
        stdout(&mut self.command("rados", args))
    }

    /// What `ceph ARGS` prints.
    pub fn ceph<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> String {
        stdout(&mut self.command("ceph", args))
    }

    /// What `rbd ARGS --format json` prints.
    pub fn rbd_json<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Value {
        let text = stdout(self.command("rbd", args).args(["--format", "json"]));
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    /// A new image in pool `rbd`, made by `rbd create NAME CREATE_ARGS`.
    pub fn image(&self, create_args: &[&str]) -> TestImage<'_> {
        self.image_in("rbd", create_args)
    }

    /// A new image in a pool, or in `POOL/NAMESPACE`.
    pub fn image_in(&self, pool: &str, create_args: &[&str]) -> TestImage<'_> {
        let spec = format!("{pool}/{}", unique("image"));
        self.rbd(["create", &spec].iter().chain(create_args));
        TestImage { cluster: self, spec }
    }

    /// A new pool, ready for images.
    pub fn pool(&self) -> TestPool<'_> {
        let name = unique("pool");
        self.ceph(["osd", "pool", "create", &name]);
        self.rbd(["pool", "init", &name]);
        TestPool { cluster: self, name }
    }

    /// Another program that has the image open until the guard goes: `rbd watch`, which opens it read-only, so that it
    /// is one watcher and owns no lock.
    pub fn hold_image(&self, spec: &str) -> Holder {
        self.hold(Command::new("rbd").args(["watch", spec]), "press enter to exit...")
    }

    /// Another program that has written to the image and has it open until the guard goes: one watcher, which owns the
    /// exclusive lock.
    pub fn lock_image(&self, spec: &str) -> Holder {
        self.hold(Command::new(HOLD_IMAGE).arg(spec), "held")
    }

    /// The same, with a lock that it hands over to nobody.
    pub fn keep_lock_of_image(&self, spec: &str) -> Holder {
        self.hold(Command::new(HOLD_IMAGE).args([spec, "keep-lock"]), "held")
    }

    /// Waits until the program says that it is ready. It ends at the end of its standard input, so also if this test
    /// dies without dropping anything.
    fn hold(&self, command: &mut Command, ready: &str) -> Holder {
        command.env("CEPH_CONF", self.conf()).env_remove("CEPH_ARGS").env_remove("CEPH_KEYRING");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line.trim_end(), ready, "{command:?}");
        Holder { child }
    }
}

/// An image that goes when the guard does.
#[derive(Debug)]
pub struct TestImage<'a> {
    cluster: &'a TestCluster,
    spec: String,
}

impl TestImage<'_> {
    /// `POOL/[NAMESPACE/]NAME`
    pub fn spec(&self) -> &str {
        &self.spec
    }

    pub fn name(&self) -> &str {
        self.spec.rsplit('/').next().unwrap()
    }

    /// The name of its header object, as the real `rbd` tells it.
    pub fn header(&self) -> String {
        let info = self.cluster.rbd_json(["info", &self.spec]);
        match info["format"].as_u64() {
            Some(1) => format!("{}.rbd", self.name()),
            _ => format!("rbd_header.{}", info["id"].as_str().unwrap()),
        }
    }
}

impl Drop for TestImage<'_> {
    /// Best effort: the test may have removed it, and the whole cluster goes in the end. An image that is watched
    /// still would cost ten seconds, and stay.
    fn drop(&mut self) {
        let rbd = |args: &[&str]| self.cluster.command("rbd", args).args(["--", &self.spec]).output().unwrap();
        if rbd(&["status"]).stdout.starts_with(b"Watchers: none") {
            rbd(&["snap", "purge", "--no-progress"]);
            rbd(&["rm", "--no-progress"]);
        }
    }
}

/// A pool that goes when the guard does.
#[derive(Debug)]
pub struct TestPool<'a> {
    cluster: &'a TestCluster,
    name: String,
}

impl TestPool<'_> {
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for TestPool<'_> {
    fn drop(&mut self) {
        let sure = "--yes-i-really-really-mean-it";
        let _ = self.cluster.command("ceph", ["osd", "pool", "rm", &self.name, &self.name, sure]).output();
    }
}

/// A program that has an image open. Dropped, it ends in order, and its watch with it.
#[derive(Debug)]
pub struct Holder {
    child: Child,
}

impl Holder {
    /// Stops it: it keeps its connections and answers nothing (SIGSTOP), until the guard goes.
    pub fn pause(&self) -> Paused {
        Paused::process(self.child.id())
    }

    /// Ends it without a farewell, so that its watch stays until the OSD forgets it (30 s).
    pub fn kill(mut self) {
        self.child.kill().unwrap();
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// A cluster of the test's own, whose daemons it may stop and kill. It goes when the guard does.
#[derive(Debug)]
pub struct PrivateCluster(TestCluster);

impl PrivateCluster {
    /// Starts one beside the shared cluster, with more options of `dev-cluster start`.
    pub fn start(options: &[&str]) -> Self {
        // `tests/run` destroys what is in this directory if the test cannot.
        let dir = TestCluster::shared().dir.with_file_name(unique("private"));
        let cluster = Self(TestCluster { dir });
        stdout(cluster.dev_cluster("start").args(options));
        cluster
    }

    /// Starts what does not run, and waits until the cluster answers.
    pub fn restart(&self) {
        stdout(&mut self.dev_cluster("start"));
    }

    /// Ends a daemon, `mon.a` or `osd.0`, as a crash would (SIGKILL).
    pub fn kill(&self, daemon: &str) {
        let pid = self.pid(daemon);
        signal("KILL", pid);
        poll_until(Duration::from_secs(10), || is_gone(pid).then_some(()));
    }

    /// Stops a daemon, which keeps its connections and answers nothing (SIGSTOP), until the guard goes.
    pub fn pause(&self, daemon: &str) -> Paused {
        Paused::process(self.pid(daemon))
    }

    fn pid(&self, daemon: &str) -> u32 {
        let file = self.dir.join("run").join(format!("{daemon}.pid"));
        std::fs::read_to_string(file).unwrap().trim().parse().unwrap()
    }

    fn dev_cluster(&self, verb: &str) -> Command {
        let mut command = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cluster/dev-cluster"));
        command.arg(verb).arg(&self.dir);
        command
    }
}

/// A process that is stopped. It goes on when the guard goes, also if the test fails: closing what the test has open
/// would wait for a daemon.
#[derive(Debug)]
pub struct Paused {
    pid: u32,
}

impl Paused {
    pub fn process(pid: u32) -> Self {
        signal("STOP", pid);
        // The signal stops the first thread, which stops the others: until then these answer.
        poll_until(Duration::from_secs(10), || {
            let mut threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
            threads.all(|thread| state(&thread.unwrap().path()) == Some('T')).then_some(())
        });
        Self { pid }
    }
}

impl Drop for Paused {
    fn drop(&mut self) {
        signal("CONT", self.pid);
    }
}

impl Deref for PrivateCluster {
    type Target = TestCluster;

    fn deref(&self) -> &TestCluster {
        &self.0
    }
}

impl Drop for PrivateCluster {
    fn drop(&mut self) {
        let _ = self.dev_cluster("destroy").output();
    }
}

fn signal(name: &str, pid: u32) {
    // The shell's own: a small system has no such program.
    stdout(Command::new("sh").args(["-c", &format!("kill -s {name} {pid}")]));
}

/// Also true of a process that has ended and was not waited for yet.
fn is_gone(pid: u32) -> bool {
    matches!(state(&PathBuf::from(format!("/proc/{pid}"))), None | Some('Z' | 'X'))
}

/// The state of a process or thread, by its directory in `/proc`; none where there is no such any more.
fn state(task: &Path) -> Option<char> {
    let stat = std::fs::read_to_string(task.join("stat")).ok()?;
    stat.rsplit(") ").next()?.chars().next()
}

/// What a program prints. Panics with all that it said if it fails.
pub fn stdout(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&stderr);
    assert!(status.success(), "{command:?}: {status}: {stderr}");
    String::from_utf8(stdout).unwrap()
}

/// Calls until there is a value, which it returns. Panics when the time is over.
#[track_caller]
pub fn poll_until<T>(deadline: Duration, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = look() {
            return value;
        }
        assert!(start.elapsed() < deadline, "not within {deadline:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A name that no other test uses, nor another run on the same cluster.
pub fn unique(what: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("{what}-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// The built example: `cargo test` builds it, `cargo test --test cluster` does not.
pub fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let program = test.ancestors().nth(2).unwrap().join("examples").join(name);
    assert!(program.exists(), "{} is not built: cargo build --examples", program.display());
    program
}
