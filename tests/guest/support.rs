//! The guest's kernel, the cluster outside, and images on it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rbd::config::Config;
use rbd::krbd::{Device, IfSeveral, Krbd, MapOptions, MapRequest, ModuleState, Preflight, UnmapOptions};
use rbd::{ErrorKind, ImageSpec};

/// How the host was before the module was loaded.
pub struct Before {
    pub list: ErrorKind,
    pub map: ErrorKind,
    pub preflight: Preflight,
}

pub fn before() -> &'static Before {
    static BEFORE: OnceLock<Before> = OnceLock::new();
    BEFORE.get_or_init(|| {
        let krbd = Krbd::new();
        let before = Before {
            list: krbd.list().unwrap_err().kind(),
            map: krbd.map(&request("rbd/none")).unwrap_err().kind(),
            preflight: krbd.preflight(),
        };
        krbd.load_module().unwrap();
        before
    })
}

/// The real driver, loaded: by this program, or by the one that ran before it in the same guest.
pub fn krbd() -> Krbd {
    let krbd = Krbd::new();
    if krbd.module() == ModuleState::NotLoaded {
        before();
    }
    krbd
}

pub fn share() -> PathBuf {
    std::env::var_os("RBD_GUEST_SHARE").expect("not in the guest: run `tests/run guest`").into()
}

pub fn config() -> Config {
    Config::read(share().join("ceph.conf")).unwrap()
}

pub fn request(spec: &str) -> MapRequest {
    request_for("admin", spec)
}

pub fn request_for(user: &str, spec: &str) -> MapRequest {
    let config = config().user(user);
    MapRequest::new(config.monitors().unwrap(), config.credentials().unwrap(), spec.parse().unwrap())
}

pub fn options(text: &str) -> MapOptions {
    text.parse().unwrap()
}

/// What a command prints that is run outside, where the cluster is.
pub fn outside(words: &[&str]) -> String {
    let (code, output) = try_outside(words);
    assert_eq!(code, 0, "{words:?}: {output}");
    output
}

pub fn try_outside(words: &[&str]) -> (i32, String) {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    // Two programs run one after the other in the same guest: neither may meet the other's answers.
    let file = |suffix: &str| share().join(format!("{}-{number}.{suffix}", std::process::id()));
    fs::write(file("new"), words.join("\0") + "\0").unwrap();
    fs::rename(file("new"), file("request")).unwrap();
    let code = until(PATIENCE, || fs::read_to_string(file("rc")).ok());
    (code.trim().parse().unwrap(), fs::read_to_string(file("out")).unwrap())
}

pub fn rbd(words: &[&str]) -> String {
    outside(&[&["rbd"], words].concat())
}

pub fn ceph(words: &[&str]) -> String {
    outside(&[&["ceph"], words].concat())
}

/// A user with these capabilities of the OSD, whose key is in the shared keyring afterwards.
pub fn make_user(user: &str, osd: &str) {
    let entity = format!("client.{user}");
    let keyring = ceph(&["auth", "get-or-create", &entity, "mon", "profile rbd", "osd", osd]);
    let path = share().join("keyring");
    let all = fs::read_to_string(&path).unwrap();
    fs::write(path, all + "\n" + &keyring).unwrap();
}

/// How long to wait for what must come: the guest is slow where its host is busy.
pub const PATIENCE: Duration = Duration::from_secs(150);

/// Polls until there is something.
pub fn until<T>(deadline: Duration, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(start.elapsed() < deadline, "nothing after {deadline:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The cluster's OSD, stopped outside: it answers again when this is dropped.
pub struct StoppedOsd(String);

impl StoppedOsd {
    pub fn new() -> Self {
        let file = format!("{}/run/osd.0.pid", std::env::var("RBD_TEST_CLUSTER").unwrap());
        let pid = outside(&["cat", &file]).trim().to_owned();
        outside(&["kill", "-STOP", &pid]);
        Self(pid)
    }
}

impl Drop for StoppedOsd {
    fn drop(&mut self) {
        outside(&["kill", "-CONT", &self.0]);
    }
}

/// An image of 64 MiB; its mappings go with it.
pub struct TestImage(pub String);

impl TestImage {
    /// In the pool `rbd`, with the features of a new image.
    pub fn new(name: &str) -> Self {
        Self::with(&format!("rbd/{name}"), &[])
    }

    pub fn with(spec: &str, arguments: &[&str]) -> Self {
        let create = [&["rbd", "create", "--size", "64M"], arguments, &["--", spec]].concat();
        let (mut code, mut output) = try_outside(&create);
        if code == libc::EEXIST {
            // Left by the program that ran in this guest before, perhaps locked or watched: out of the way.
            rbd(&["mv", "--", spec, &format!("{spec}.before")]);
            (code, output) = try_outside(&create);
        }
        assert_eq!(code, 0, "{create:?}: {output}");
        Self(spec.to_owned())
    }

    pub fn spec(&self) -> ImageSpec {
        self.0.parse().unwrap()
    }

    pub fn map(&self, options: &str) -> rbd::Result<Device> {
        krbd().map(&request(&self.0).options(self::options(options)))
    }

    pub fn watchers(&self) -> String {
        rbd(&["status", "--", &self.0])
    }
}

impl Drop for TestImage {
    fn drop(&mut self) {
        let options = UnmapOptions::new().if_several(IfSeveral::All).deadline(Duration::from_secs(20));
        if krbd().unmap(self.spec(), &options).is_err_and(|error| error.kind() == ErrorKind::Busy) {
            let _ = krbd().unmap(self.spec(), &options.force());
        }
    }
}

/// However long udev looks into the device.
pub fn unmap(device: &Device) -> u32 {
    let options = UnmapOptions::new().busy_retries(u32::MAX).deadline(PATIENCE);
    krbd().unmap(device, &options).unwrap()[0].attempts
}

/// No udev, whose events for very many devices would keep the guest busy for minutes; it is back when this is dropped.
pub struct WithoutUdev(());

impl WithoutUdev {
    pub fn new() -> Self {
        run("udevadm", &["control", "--exit"]);
        Self(())
    }
}

impl Drop for WithoutUdev {
    fn drop(&mut self) {
        run("/lib/systemd/systemd-udevd", &["--daemon"]);
    }
}

/// A program in the guest that must succeed.
pub fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{program} {arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Makes a file system on a block device and mounts it on the directory that is returned.
pub fn mount_new(node: &str) -> tempfile::TempDir {
    let mount_point = tempfile::tempdir().unwrap();
    run("mkfs.ext4", &["-q", node]);
    run("mount", &[node, mount_point.path().to_str().unwrap()]);
    mount_point
}

/// One of the examples, built as the tests are.
pub fn example(name: &str) -> PathBuf {
    Path::new(&std::env::var_os("RBD_GUEST_EXAMPLES").unwrap()).join(name)
}

pub fn text(output: &Output) -> (i32, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
}
