//! Maps that the kernel or the cluster refuses: errno, kind and stage.

use std::ffi::CString;
use std::process::Command;

use rbd::attach::KernelLog;
use rbd::krbd::{Credentials, MapRequest, Stage};
use rbd::{ErrorKind, Secret};

use crate::support::*;

/// The errno, the kind and the stage of a map that fails.
fn refusal(request: &MapRequest) -> (i32, ErrorKind, Stage) {
    let error = krbd().map(request).unwrap_err();
    println!("{error}");
    (error.errno().unwrap(), error.kind(), error.stage().unwrap())
}

#[test]
fn what_is_missing_is_not_found() {
    let image = TestImage::new("there");
    for spec in ["rbd/nope", "nope/there", "rbd/there@nope", "rbd/nope/there"] {
        assert_eq!(refusal(&request(spec)), (libc::ENOENT, ErrorKind::NotFound, Stage::Write), "{spec}");
    }
    drop(image);
}

#[test]
fn features_that_the_kernel_lacks_are_a_mismatch_unless_mapped_read_only() {
    let image = TestImage::with("rbd/journal", &["--image-feature", "exclusive-lock,journaling"]);
    assert_eq!(refusal(&request(&image.0)), (libc::ENXIO, ErrorKind::FeatureMismatch, Stage::Write));
    unmap(&image.map("ro").unwrap());
}

#[test]
fn a_wrong_key_and_an_unknown_user_are_refused_by_the_cluster() {
    let image = TestImage::new("guarded");
    let wrong = Secret::new("AQBRHFNlAAAAABAAo9K/oNuuDNdSqbRnkTIWhw==");
    for user in ["admin", "nobody"] {
        let credentials = Credentials::new(user, wrong.clone());
        let request = MapRequest::new(config().monitors().unwrap(), credentials, image.spec());
        assert_eq!(refusal(&request), (libc::EACCES, ErrorKind::PermissionDenied, Stage::Write), "{user}");
    }
}

#[test]
fn a_key_that_the_kernel_does_not_have_is_the_kernels_refusal() {
    let image = TestImage::new("keyless");
    let monitors = || config().monitors().unwrap();
    let request = MapRequest::new(monitors(), Credentials::preloaded("absent"), image.spec());
    assert_eq!(refusal(&request), (libc::EPERM, ErrorKind::PermissionDenied, Stage::Write));
    let request = MapRequest::new(monitors(), Credentials::without_key("admin"), image.spec());
    assert_eq!(refusal(&request), (libc::EINVAL, ErrorKind::InvalidInput, Stage::Write));
}

/// Puts a user's key into the session's keyring, as keyctl(1) does; returns its serial number.
fn preload(user: &str) -> libc::c_long {
    let keyring = std::fs::read_to_string(share().join("keyring")).unwrap();
    let (_, section) = keyring.split_once(&format!("[client.{user}]")).unwrap();
    let key = section.split_whitespace().nth(2).unwrap();
    let key = Command::new("sh").args(["-c", "echo \"$0\" | base64 -d", key]).output().unwrap().stdout;
    let name = CString::new(format!("client.{user}")).unwrap();
    let (keyring_type, session_keyring) = (c"ceph".as_ptr(), -3_i64);
    // SAFETY: add_key(2) reads two terminated strings and the payload, which live until it returns.
    let serial = unsafe {
        libc::syscall(libc::SYS_add_key, keyring_type, name.as_ptr(), key.as_ptr(), key.len(), session_keyring)
    };
    assert!(serial > 0, "{}", std::io::Error::last_os_error());
    serial
}

#[test]
fn a_preloaded_key_serves_until_it_is_revoked() {
    let image = TestImage::new("preloaded");
    make_user("preloaded", "profile rbd");
    let serial = preload("preloaded");
    let credentials = Credentials::preloaded("preloaded");
    let request = MapRequest::new(config().monitors().unwrap(), credentials, image.spec());
    unmap(&krbd().map(&request).unwrap());
    const REVOKE: libc::c_long = 3;
    // SAFETY: keyctl(2) takes numbers for this.
    assert_eq!(unsafe { libc::syscall(libc::SYS_keyctl, REVOKE, serial) }, 0);
    let log = KernelLog::from_now();
    assert_eq!(refusal(&request), (libc::EPERM, ErrorKind::PermissionDenied, Stage::Write));
    let lines = log.lines();
    assert!(lines.iter().any(|line| line.contains("revoked key")), "{lines:?}");
}

#[test]
fn a_quota_of_keys_that_is_used_up_is_said_to_be_that() {
    let image = TestImage::new("quota");
    let request = request(&image.0);
    let quota = "/proc/sys/kernel/keys/root_maxkeys";
    let before = std::fs::read_to_string(quota).unwrap();
    std::fs::write(quota, "1").unwrap();
    let result = krbd().map(&request);
    std::fs::write(quota, before).unwrap();
    let error = result.unwrap_err();
    println!("{error}");
    assert_eq!((error.errno(), error.stage()), (Some(libc::EDQUOT), Some(Stage::AddKey)));
    assert!(error.hint().unwrap().contains("quota of keys"), "{error}");
    // A key that was refused leaves nothing behind that counts.
    unmap(&krbd().map(&request).unwrap());
}

#[test]
fn an_aes256k_key_is_refused_by_its_name_on_a_kernel_that_is_too_old() {
    let image = TestImage::new("modern");
    // Type 2, 32 bytes of secret.
    let key = format!("AgBRHFNlAAAAACAA{}", "AAAA".repeat(10) + "AAA=");
    let request =
        MapRequest::new(config().monitors().unwrap(), Credentials::new("admin", Secret::new(key)), image.spec());
    let error = krbd().map(&request).unwrap_err();
    println!("{error}");
    assert_eq!((error.kind(), error.stage()), (ErrorKind::Unsupported, Some(Stage::AddKey)));
    assert!(error.hint().unwrap().contains("aes256k"), "{error}");
}

#[test]
fn a_user_who_may_only_read_maps_read_only() {
    let image = TestImage::new("readable");
    make_user("reader", "profile rbd-read-only");
    let request = request_for("reader", &image.0);
    assert_eq!(refusal(&request), (libc::EPERM, ErrorKind::PermissionDenied, Stage::Write));
    unmap(&krbd().map(&request.options(options("ro"))).unwrap());
}

#[test]
fn options_that_need_a_feature_which_the_image_lacks_are_invalid() {
    let image = TestImage::with("rbd/plain", &["--image-feature", "layering"]);
    for option in ["exclusive", "lock_on_read"] {
        let request = request(&image.0).options(options(option));
        assert_eq!(refusal(&request), (libc::EINVAL, ErrorKind::InvalidInput, Stage::Write), "{option}");
    }
}

#[test]
fn a_lock_that_is_not_given_up_is_held() {
    let image = TestImage::new("locked");
    let device = image.map("exclusive,noshare").unwrap();
    let second = request(&image.0).options(options("exclusive,noshare"));
    assert_eq!(refusal(&second), (libc::EROFS, ErrorKind::LockHeld, Stage::Write));
    unmap(&device);

    rbd(&["lock", "add", "--", &image.0, "by-hand"]);
    assert_eq!(refusal(&request(&image.0)), (libc::EBUSY, ErrorKind::Busy, Stage::Write));
    // The owner, `rbd lock add`, has ended: the map waits for nobody.
    let locks = rbd(&["lock", "ls", "--", &image.0]);
    let locker = locks.lines().last().unwrap().split_whitespace().next().unwrap().to_owned();
    rbd(&["lock", "rm", "--", &image.0, "by-hand", &locker]);
    unmap(&image.map("").unwrap());
}

#[test]
fn an_owner_that_does_not_answer_is_waited_for_as_long_as_lock_timeout_says() {
    let image = TestImage::new("waited");
    // It has the lock and is stopped before anybody asks for it; it watches on until the cluster finds it dead.
    let script = format!(
        "sleep 300 | {}/tests/cluster/hold-image {} >/dev/null 2>&1 & \
         until rbd lock ls {} | grep -q client; do :; done; kill -STOP $! && echo $!",
        env!("CARGO_MANIFEST_DIR"),
        image.0,
        image.0
    );
    let holder = outside(&["setsid", "sh", "-c", &script]);
    let start = std::time::Instant::now();
    let result = krbd().map(&request(&image.0).options(options("exclusive,lock_timeout=4,noshare")));
    outside(&["kill", "-KILL", holder.trim()]);
    let error = result.unwrap_err();
    println!("{error}, after {:?}", start.elapsed());
    assert_eq!((error.kind(), error.errno()), (ErrorKind::LockHeld, Some(libc::ETIMEDOUT)));
    assert!(error.to_string().contains("lock_timeout"), "{error}");
}

#[test]
fn a_blocklisted_client_loses_its_watch_and_spoils_the_next_shared_map() {
    let image = TestImage::new("fenced");
    let device = image.map("osd_idle_ttl=59").unwrap();
    let address = device.client_address.unwrap().to_string();
    ceph(&["osd", "blocklist", "add", &address, "600"]);
    until(PATIENCE, || (image.watchers() == "Watchers: none\n").then_some(()));
    assert_eq!(krbd().device(device.id).unwrap(), Some(device.clone()));
    let shared = request(&image.0).options(options("osd_idle_ttl=59"));
    // The kernel learns of it with the next map of the OSDs.
    let refused = krbd().map(&shared).unwrap_err();
    println!("{refused}");
    assert_eq!((refused.errno(), refused.kind()), (Some(libc::ESHUTDOWN), ErrorKind::Blocklisted));
    let own = krbd().map(&request(&image.0).options(options("osd_idle_ttl=59,noshare"))).unwrap();
    assert_ne!(own.client_id, device.client_id);
    unmap(&own);
    unmap(&device);
    ceph(&["osd", "blocklist", "rm", &address]);
}
