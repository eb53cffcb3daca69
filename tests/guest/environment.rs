//! Other users, namespaces, filters of system calls and parameters of the module.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use rbd::krbd::{Credentials, IfSeveral, MapRequest, ModuleState, Stage, UnmapOptions};
use rbd::{ErrorKind, Secret};

use crate::support::*;

fn map_command(image: &TestImage) -> Vec<String> {
    let conf = share().join("ceph.conf");
    [example("map").to_str().unwrap(), "--conf", conf.to_str().unwrap(), &image.0].map(str::to_owned).to_vec()
}

fn run_in(wrapper: &[&str], words: &[String]) -> (i32, String, String) {
    let output = Command::new(wrapper[0]).args(&wrapper[1..]).args(words).output().unwrap();
    text(&output)
}

#[test]
fn without_privilege_there_is_a_list_and_no_map() {
    let image = TestImage::new("private");
    let device = image.map("").unwrap();
    let output = Command::new(example("mapped")).arg("--json").uid(65534).gid(65534).output().unwrap();
    let (code, out, err) = text(&output);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("\"image\": \"private\"") && out.contains("\"config\": null"), "{out}");

    // Configuration and key are not what it lacks.
    for (path, mode) in [(share(), 0o755), (share().join("ceph.conf"), 0o644), (share().join("keyring"), 0o644)] {
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    }
    let words = map_command(&image);
    let output = Command::new(&words[0]).args(&words[1..]).uid(65534).gid(65534).output().unwrap();
    let (code, _, err) = text(&output);
    assert_ne!(code, 0);
    assert!(err.contains("not privileged"), "{err}");
    unmap(&device);
}

#[test]
fn in_a_user_namespace_root_is_not_privileged() {
    let image = TestImage::new("contained");
    let (code, _, err) = run_in(&["unshare", "--user", "--map-root-user"], &map_command(&image));
    assert_ne!(code, 0);
    assert!(err.contains("not privileged"), "{err}");
}

#[test]
fn a_read_only_sysfs_is_not_a_read_only_image() {
    let image = TestImage::new("container");
    let words = map_command(&image);
    let script = format!("mount -o remount,bind,ro /sys && exec {}", words.join(" "));
    let (code, _, err) = run_in(&["unshare", "--mount", "sh", "-c"], &[script]);
    assert_ne!(code, 0);
    assert!(err.contains("/sys is read-only"), "{err}");
}

#[test]
fn from_another_network_namespace_devices_are_listed_and_unmapped() {
    let image = TestImage::new("elsewhere");
    let device = image.map("").unwrap();
    let words = [example("unmap").to_str().unwrap().to_owned(), device.node.to_str().unwrap().to_owned()];
    let (code, _, err) = run_in(&["unshare", "--net"], &words);
    assert_eq!(code, 0, "{err}");
    assert_eq!(krbd().device(device.id).unwrap(), None);
}

#[test]
fn in_another_mount_namespace_maps_work() {
    let image = TestImage::new("mounts");
    let (code, out, err) = run_in(&["unshare", "--mount"], &map_command(&image));
    assert_eq!(code, 0, "{err}");
    krbd().unmap(std::path::Path::new(out.trim()), &UnmapOptions::new()).unwrap();
}

/// Has add_key(2) give EPERM in this thread and those that it starts, as the filters of container engines do.
fn forbid_add_key() {
    let step = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let mut program = [
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0), // the call's number
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, libc::SYS_add_key as u32),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
        step(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: PR_SET_SECCOMP reads the filter and the program that it points to, and copies both.
    let result = unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter) };
    assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
}

#[test]
fn where_add_key_is_forbidden_the_key_goes_among_the_options_if_that_is_allowed() {
    let image = TestImage::new("filtered");
    let filtered = || {
        forbid_add_key();
        let refused = krbd().map(&request(&image.0)).unwrap_err();
        (refused, krbd().map(&request(&image.0).allow_secret_in_options()).unwrap())
    };
    let (refused, device) = std::thread::scope(|scope| scope.spawn(filtered).join().unwrap());
    assert_eq!((refused.kind(), refused.stage()), (ErrorKind::PermissionDenied, Some(Stage::AddKey)));
    assert!(refused.to_string().contains("add_key(2)"), "{refused}");
    let shown = std::fs::read_to_string(format!("/sys/bus/rbd/devices/{}/config_info", device.id)).unwrap();
    assert!(shown.contains(",secret=A"), "the kernel shows it to root");
    assert!(device.config.as_ref().unwrap().as_str().contains("name=admin,secret=… "), "{device:?}");
    unmap(&device);
    // A wrong one in this way is the cluster's refusal as well.
    let wrong = Credentials::new("admin", Secret::new("AQBRHFNlAAAAABAAo9K/oNuuDNdSqbRnkTIWhw=="));
    let request = MapRequest::new(config().monitors().unwrap(), wrong, image.spec()).allow_secret_in_options();
    let wrong = || {
        forbid_add_key();
        krbd().map(&request).unwrap_err()
    };
    let refused = std::thread::scope(|scope| scope.spawn(wrong).join().unwrap());
    assert_eq!((refused.errno(), refused.stage()), (Some(libc::EACCES), Some(Stage::Write)));
}

/// A device that was taken away by force, or that udev still has open, keeps the module for a moment after it has left
/// sysfs.
fn unload_module() {
    let unload = || Command::new("modprobe").args(["-r", "rbd"]).stderr(Stdio::null()).status().unwrap();
    until(PATIENCE, || unload().success().then_some(()));
}

/// The module with `single_major=N`, until this is dropped.
struct MajorForEachDevice(());

impl MajorForEachDevice {
    fn new() -> Self {
        assert!(krbd().list().unwrap().is_empty());
        unload_module();
        run("modprobe", &["rbd", "single_major=N"]);
        assert_eq!(krbd().module(), ModuleState::Loaded { single_major: Some(false) });
        Self(())
    }
}

impl Drop for MajorForEachDevice {
    fn drop(&mut self) {
        unload_module();
        run("modprobe", &["rbd"]);
    }
}

#[test]
fn a_module_with_a_major_for_each_device_is_served_through_the_other_files() {
    let _module = MajorForEachDevice::new();
    let image = TestImage::new("majors");
    let devices = [image.map("").unwrap(), image.map("").unwrap()];
    assert_ne!(devices[0].number.major(), devices[1].number.major());
    for device in &devices {
        unmap(device);
    }
}

#[test]
fn a_map_that_finds_no_major_number_left_says_so() {
    let _module = MajorForEachDevice::new();
    let image = TestImage::new("numbers");
    let _without = WithoutUdev::new();
    // There are 255, and other drivers have theirs.
    let refused = (0..256).find_map(|_| image.map("ro").err()).unwrap();
    println!("{refused}");
    assert_eq!((refused.kind(), refused.errno()), (ErrorKind::OutOfMajors, Some(libc::EBUSY)));
    krbd().unmap(image.spec(), &UnmapOptions::new().if_several(IfSeveral::All)).unwrap();
}

/// As of a timer or of children that end, with a handler and without SA_RESTART, on the very thread that waits.
#[test]
fn signals_of_the_host_cut_neither_a_map_nor_an_unmap_short() {
    static HANDLED: AtomicU32 = AtomicU32::new(0);
    extern "C" fn handle(_: libc::c_int) {
        HANDLED.fetch_add(1, Ordering::Relaxed);
    }
    // SAFETY: an action of zeros has no flags and an empty mask; the handler does no more than add to an atomic.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handle as extern "C" fn(libc::c_int) as usize;
        assert_eq!(libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut()), 0);
    }
    let image = TestImage::new("signals");
    // SAFETY: pthread_self(3) takes nothing and cannot fail.
    let waiting = unsafe { libc::pthread_self() };
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                // SAFETY: the thread lives for as long as this scope.
                unsafe { libc::pthread_kill(waiting, libc::SIGUSR1) };
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        let result = (0..3).try_for_each(|_| {
            let device = image.map("noshare")?;
            krbd().unmap(&device, &UnmapOptions::new().busy_retries(u32::MAX)).map(drop)
        });
        over.store(true, Ordering::Relaxed);
        result.unwrap();
    });
    assert_ne!(HANDLED.load(Ordering::Relaxed), 0);
}
