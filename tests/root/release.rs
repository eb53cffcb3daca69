//! What frees a device, done.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::process::Command;
use std::time::{Duration, Instant};

use rbd::ErrorKind;
use rbd::remedy::{Action, Outcome, Policy, Release, Released};

use super::machine::{Disk, Script, as_nobody, sh};

impl Disk {
    fn free(&self, policy: Policy) -> Released {
        let number = self.search().device();
        Release::new(policy).free(number).unwrap()
    }
}

/// The steps, one line each, the number of the loop device left out.
fn lines(released: &Released) -> Vec<String> {
    released.steps.iter().map(ToString::to_string).collect()
}

/// A script that mounts `disk` in a namespace of its own.
fn mounted(disk: &Disk, at: &std::path::Path) -> Script {
    Script::unshared(&format!("mount {} '{}'; echo ready; read line || true", disk.device.display(), at.display()))
}

#[test]
fn a_mount_in_another_namespace_is_unmounted_there() {
    let disk = Disk::ext4();
    let script = mounted(&disk, &disk.mount_point("m"));
    let released = disk.free(Policy::new());
    assert!(released.is_free(), "{released}");
    let at = disk.directory.path().join("m");
    let expected = format!("unmount {} in the mount namespace of pid {} (sh): done", at.display(), script.pid());
    assert_eq!(lines(&released), [expected]);
    // The process is not harmed.
    script.finish();
}

#[test]
fn every_namespace_is_gone_through_and_what_propagates_is_not_done_twice() {
    let disk = Disk::ext4();
    let at = disk.mount_point("m");
    // The second shares its mounts with the first, the third has a private copy.
    let script = format!(
        "mount --make-rshared /; mount {} {}
         unshare --mount --propagation unchanged sh -c 'sleep 1000' &
         unshare --mount --propagation private sh -c 'sleep 1000' &
         while [ $(grep -l ' {1} ' /proc/[0-9]*/mountinfo | wc -l) -lt 5 ]; do :; done; echo ready; wait",
        disk.device.display(),
        at.display()
    );
    let arguments = ["--mount", "--propagation", "private", "--pid", "--fork", "--kill-child", "--mount-proc"];
    let _script = Script::run(Command::new("unshare").args(arguments).args(["sh", "-euc", &script]));
    assert_eq!(disk.holders().len(), 3, "{}", disk.holders());
    let released = disk.free(Policy::new());
    assert!(released.is_free(), "{released}");
    let count = |is: fn(&Outcome) -> bool| released.steps.iter().filter(|step| is(&step.outcome)).count();
    let (done, gone) = (count(|outcome| matches!(outcome, Outcome::Done)), count(|o| matches!(o, Outcome::Gone)));
    assert_eq!((done, gone), (2, 1), "{released}");
}

#[test]
fn a_mount_point_may_have_any_name() {
    for name in ["a b", "a\nb", "a\\040b", "tab\tand # and ü", "//deleted", "x (deleted)"] {
        let disk = Disk::ext4();
        let at = disk.mount_point(name);
        let script = format!("mount {} \"$0\"; echo ready; read line || true", disk.device.display());
        let mut command = Command::new("unshare");
        let script = Script::run(command.args(["--mount", "sh", "-euc", &script]).arg(&at));
        assert_eq!(disk.holders().len(), 1, "{name:?}");
        let released = disk.free(Policy::new());
        assert!(released.is_free(), "{name:?}: {released}");
        script.finish();
    }
}

#[test]
fn a_mount_point_need_not_be_text() {
    let disk = Disk::ext4();
    let at = disk.directory.path().join(OsStr::from_bytes(b"\xff\xfe"));
    std::fs::create_dir(&at).unwrap();
    let script = format!("mount {} \"$0\"; echo ready; read line || true", disk.device.display());
    let _script = Script::run(Command::new("unshare").args(["--mount", "sh", "-euc", &script]).arg(&at));
    let released = disk.free(Policy::new());
    assert!(released.is_free(), "{released}");
}

#[test]
fn a_mount_that_a_chrooted_process_alone_shows_is_unmounted_below_its_root() {
    let disk = Disk::ext4();
    let root = disk.mount_point("root");
    let script = format!(
        "mount --rbind / {0}; mount {1} {0}/mnt; exec chroot {0} sh -c 'echo ready; read line || true'",
        root.display(),
        disk.device.display()
    );
    let script = Script::unshared(&script);
    let released = disk.free(Policy::new());
    assert!(released.is_free(), "{released}");
    assert!(lines(&released)[0].starts_with("unmount /mnt in the mount namespace of pid "), "{released}");
    script.finish();
}

#[test]
fn a_single_threads_namespace_is_entered() {
    let disk = Disk::ext4();
    let (device, path) = (disk.device.clone(), disk.mount_point("m"));
    let (ready, is_ready) = std::sync::mpsc::channel();
    let (release, released) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::spawn(move || {
        // SAFETY: unshare(2) takes flags and no memory; only this thread leaves the namespace.
        assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNS | libc::CLONE_FS) }, 0);
        sh(&format!("mount --make-rprivate / && mount {} {}", device.display(), path.display()));
        ready.send(()).unwrap();
        let _until_dropped = released.recv();
    });
    is_ready.recv().unwrap();
    let freed = disk.free(Policy::new());
    drop(release);
    thread.join().unwrap();
    assert!(freed.is_free(), "{freed}");
    assert!(lines(&freed)[0].contains("in the mount namespace of thread "), "{freed}");
}

#[test]
fn a_busy_mount_is_unmounted_lazily_only_if_that_is_allowed() {
    let disk = Disk::ext4();
    let script = format!(
        "mount {0} {1}; cd {1}; echo ready; read line || true",
        disk.device.display(),
        disk.mount_point("m").display()
    );
    let script = Script::unshared(&script);

    let released = disk.free(Policy::new());
    assert!(!released.is_free(), "{released}");
    let outcomes: Vec<_> = released.steps.iter().map(|step| (&step.remedy.action, &step.outcome)).collect();
    let [
        (Action::CloseFiles { .. }, Outcome::LeftToAPerson),
        (Action::Unmount(_), Outcome::Failed(error)),
        (Action::UnmountLazily(_), Outcome::NotAllowed),
    ] = &outcomes[..]
    else {
        panic!("{released}")
    };
    assert_eq!((error.kind(), error.operation()), (ErrorKind::Busy, "unmount"));
    assert_eq!(released.left.as_ref().unwrap().len(), 2);

    let released = disk.free(Policy::new().allow_lossy());
    let is_done = |step: &&rbd::remedy::Step| matches!(step.outcome, Outcome::Done);
    let done: Vec<_> = released.steps.iter().filter(is_done).collect();
    assert!(matches!(&done[..], [step] if matches!(step.remedy.action, Action::UnmountLazily(_))), "{released}");
    // The working directory is what is left.
    assert!(!released.is_free() && released.left.as_ref().unwrap().len() == 1, "{released}");
    script.finish();
    assert!(disk.free(Policy::new()).is_free());
}

#[test]
fn its_own_mounts_are_unmounted_from_within_and_another_file_system_is_left_to_a_person() {
    let disk = Disk::ext4();
    let at = disk.mount_point("m");
    let script = format!(
        "mount {0} {1}; mkdir {1}/sub {1}/tmp; mount --bind {1} {1}; mount --bind {1} {1}/sub; mount -t tmpfs tmpfs {1}/tmp
         echo ready; read line || true; umount {1}/tmp; echo ready; read line || true",
        disk.device.display(),
        at.display()
    );
    let mut script = Script::unshared(&script);
    let released = disk.free(Policy::new());
    assert!(!released.is_free(), "{released}");
    let left: Vec<_> = released.steps.iter().filter(|step| matches!(step.outcome, Outcome::LeftToAPerson)).collect();
    assert!(matches!(&left[0].remedy.action, Action::UnmountBelow { path, .. } if *path == at.join("tmp")));
    script.go_on();
    let released = disk.free(Policy::new());
    assert!(released.is_free(), "{released}");
    script.finish();
}

#[test]
fn a_mount_that_another_covers_is_not_mistaken_for_it() {
    let disk = Disk::ext4();
    let script = format!(
        "mount {0} {1}; mount -t tmpfs kept {1}; echo ready; read line || true; grep -q ' {1} .* tmpfs kept ' /proc/self/mountinfo",
        disk.device.display(),
        disk.mount_point("m").display()
    );
    let script = Script::unshared(&script);
    let released = disk.free(Policy::new());
    let covered = released.steps.iter().find_map(|step| match (&step.remedy.action, &step.outcome) {
        (Action::Unmount(_), Outcome::Failed(error)) => Some(error),
        _ => None,
    });
    let error = covered.unwrap_or_else(|| panic!("{released}"));
    assert_eq!((error.kind(), error.hint()), (ErrorKind::Busy, Some("another mount covers it")));
    script.finish();
}

#[test]
fn the_root_of_a_container_is_not_made_read_only() {
    let disk = Disk::ext4();
    let root = disk.mount_point("root");
    let script = format!(
        "mount {0} {1}; cd {1}; mkdir -p old bin lib lib64 usr proc
         for directory in bin lib lib64 usr proc; do mount --rbind /$directory $directory; done
         pivot_root . old; umount -l /old; exec /bin/sh -c 'echo ready; read line || true; echo x >/written'",
        disk.device.display(),
        root.display()
    );
    let script = Script::unshared(&script);
    let released = disk.free(Policy::new().allow_lossy());
    assert!(!released.is_free(), "{released}");
    let root = released.steps.iter().find(|step| matches!(&step.remedy.action, Action::Unmount(_)));
    assert!(matches!(root.unwrap().outcome, Outcome::LeftToAPerson), "{released}");
    script.finish();
}

#[test]
fn a_mount_that_a_user_namespace_has_locked_says_so() {
    let disk = Disk::ext4();
    let script = format!(
        "mount {0} {1}; unshare --user --map-root-user --mount sh -c 'echo ready; exec sleep 1000' & wait",
        disk.device.display(),
        disk.mount_point("m").display()
    );
    let _script = Script::unshared_with_processes(&script);
    let released = disk.free(Policy::new());
    assert!(!released.is_free(), "{released}");
    let locked = released.steps.iter().find_map(|step| match &step.outcome {
        Outcome::Failed(error) => Some(error),
        _ => None,
    });
    assert!(locked.unwrap().hint().unwrap().starts_with("a user namespace has it locked"), "{released}");
}

#[test]
fn swap_on_a_loop_device_over_a_partition_is_closed_from_the_top_down() {
    let disk = Disk::empty();
    let device = disk.device.display();
    sh(&format!("printf ',32M\\n,\\n' | sfdisk -q {device} && partx --update {device}"));
    let upper = sh(&format!("losetup --find --show {device}p2"));
    sh(&format!("mkswap -q {upper} && swapon {upper}"));
    let released = disk.free(Policy::new());
    assert!(released.is_free(), "{released}");
    let lines = lines(&released);
    assert_eq!(lines[0], format!("swapoff {upper}: done"));
    assert!(lines[1].starts_with("detach loop") && lines[1].ends_with("p2: done"), "{released}");
    sh(&format!("! grep -q '^{upper} ' /proc/swaps && ! test -e /sys/block/$(basename {upper})/loop"));
}

#[test]
fn a_loop_device_and_swap_in_files_of_another_namespace_are_closed_before_the_mount() {
    let disk = Disk::ext4();
    let script = format!(
        "mount {0} {1}; truncate -s 8M {1}/inner; losetup --find --show {1}/inner
         dd if=/dev/zero of={1}/swap bs=1M count=8 status=none; chmod 600 {1}/swap; mkswap -q {1}/swap; swapon {1}/swap
         echo ready >&3; read line || true",
        disk.device.display(),
        disk.mount_point("m").display()
    );
    let script = Script::unshared(&format!("exec 3>&1 >/dev/null; {script}"));
    let released = disk.free(Policy::new());
    assert!(released.is_free(), "{released}");
    let lines = lines(&released);
    assert!(
        lines[0].starts_with("detach loop") && lines[1].starts_with("swapoff ") && lines[2].starts_with("unmount ")
    );
    script.finish();
}

#[test]
fn a_loop_device_that_is_open_is_not_detached_behind_its_users_back() {
    let disk = Disk::empty();
    let upper = sh(&format!("losetup --find --show {}", disk.device.display()));
    let file = std::fs::File::open(&upper).unwrap();
    let released = disk.free(Policy::new());
    let detach = released.steps.iter().find(|step| matches!(step.remedy.action, Action::Close(_)));
    assert!(matches!(detach.unwrap().outcome, Outcome::InUse), "{released}");
    assert_eq!(sh(&format!("cat /sys/block/$(basename {upper})/loop/autoclear")), "0");
    drop(file);
    assert!(disk.free(Policy::new()).is_free());
}

#[test]
fn without_privilege_nothing_is_done_and_the_kernels_word_is_passed_on() {
    let disk = Disk::ext4();
    let at = disk.mount_point("m");
    sh(&format!("mount {} {}", disk.device.display(), at.display()));
    let number = disk.search().device();
    let released = as_nobody(move || Release::new(Policy::new()).free(number).unwrap());
    sh(&format!("umount {}", at.display()));
    let denied = released.steps.iter().find_map(|step| match &step.outcome {
        Outcome::Failed(error) => Some(error.kind()),
        _ => None,
    });
    assert_eq!(denied, Some(ErrorKind::PermissionDenied), "{released}");
}

#[test]
fn a_release_ends_with_its_deadline() {
    let disk = Disk::ext4();
    let script = format!(
        "mount {0} {1}; cd {1}; echo ready; read line || true",
        disk.device.display(),
        disk.mount_point("m").display()
    );
    let _script = Script::unshared(&script);
    let start = Instant::now();
    let released = disk.free(Policy::new().allow_lossy().deadline(Duration::from_millis(500)));
    assert!(!released.is_free() && start.elapsed() < Duration::from_secs(2), "{:?} {released}", start.elapsed());
}
