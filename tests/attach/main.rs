//! Attach and detach against the kernel's real rbd driver and a real cluster: `tests/run guest` runs them in the guest,
//! after those that need no Ceph library.

mod dropin;
#[path = "../guest/support.rs"]
#[allow(dead_code)] // What only the other program uses.
mod support;
mod usage;

use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use rbd::attach::Support;
use rbd::krbd::{MapOptions, Stage, UnmapOptions};
use rbd::{Attach, Cluster, Detach, Details, ErrorKind, Features};

use support::*;

fn cluster() -> &'static Cluster {
    static CLUSTER: OnceLock<Cluster> = OnceLock::new();
    CLUSTER.get_or_init(|| {
        let builder = Cluster::builder().config_file(share().join("ceph.conf"));
        // An emulated processor is slow.
        builder.deadline(Duration::from_secs(120)).connect().unwrap()
    })
}

fn attach() -> Attach {
    Attach::new(cluster(), &krbd())
}

#[test]
fn monitors_user_and_key_come_from_the_connection() {
    let image = TestImage::new("filled");
    let device = attach().map(&image.spec(), &MapOptions::new()).unwrap();
    assert_eq!(device.fsid, Some(cluster().fsid().unwrap()));
    let config = device.config.as_ref().unwrap();
    assert_eq!(config.user(), Some("admin"));
    let v1 = cluster().monitors().unwrap().for_protocol(rbd::address::Protocol::V1).unwrap();
    assert_eq!(config.monitors(), v1[0].to_string());

    // The same image by the same options is the same mapping; by others it is an error that says which.
    assert_eq!(attach().map_or_get(&image.spec(), &MapOptions::new()).unwrap().id, device.id);
    let error = attach().map_or_get(&image.spec(), &MapOptions::new().read_only()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OptionsDiffer);

    let unmapped = attach().unmap(&device, &UnmapOptions::new()).unwrap();
    assert_eq!(unmapped[0].device.id, device.id);
    assert_eq!(krbd().device(device.id).unwrap(), None);
}

#[test]
fn default_map_options_are_those_of_the_image_and_give_way_to_the_callers() {
    let image = TestImage::new("defaults");
    rbd(&["config", "image", "set", &image.0, "rbd_default_map_options", "queue_depth=64,lock_timeout=7"]);
    let own = MapOptions::new().queue_depth(32).unwrap();
    let device = attach().use_default_map_options().map(&image.spec(), &own).unwrap();
    assert_eq!(device.config.as_ref().unwrap().options().to_string(), "lock_timeout=7,queue_depth=32");
    unmap(&device);
    let device = attach().map(&image.spec(), &own).unwrap();
    assert_eq!(device.config.as_ref().unwrap().options().to_string(), "queue_depth=32");
    unmap(&device);
}

#[test]
fn what_cannot_be_mapped_is_refused_before_the_kernel_is_touched() {
    let missing = attach().map(&"rbd/nowhere".parse().unwrap(), &MapOptions::new()).unwrap_err();
    assert_eq!((missing.kind(), missing.operation()), (ErrorKind::NotFound, "open image"));

    let journaled = TestImage::with("rbd/journaled", &["--image-feature", "exclusive-lock,journaling"]);
    let error = attach().map(&journaled.spec(), &MapOptions::new()).unwrap_err();
    assert_eq!((error.kind(), error.stage()), (ErrorKind::FeatureMismatch, Some(Stage::Preflight)));
    assert_eq!(error.details(), &Details::Features(Features::JOURNALING));
    let device = attach().map(&journaled.spec(), &MapOptions::new().read_only()).unwrap();
    assert_eq!(device.read_only, Some(true));
    unmap(&device);

    let simple = TestImage::with("rbd/simple", &["--image-feature", "layering"]);
    for options in [MapOptions::new().exclusive(), MapOptions::new().lock_on_read()] {
        let error = attach().map(&simple.spec(), &options).unwrap_err();
        assert_eq!((error.kind(), error.stage()), (ErrorKind::OptionNeedsFeature, Some(Stage::Preflight)));
        assert_eq!(error.details(), &Details::Features(Features::EXCLUSIVE_LOCK));
    }
    assert!(krbd().find(simple.spec()).unwrap().is_empty());
}

#[test]
fn an_image_that_is_locked_by_hand_is_explained_by_that_lock() {
    let image = TestImage::new("locked");
    rbd(&["lock", "add", &image.0, "by-hand"]);
    let error = attach().map(&image.spec(), &MapOptions::new()).unwrap_err();
    assert_eq!((error.kind(), error.errno()), (ErrorKind::Busy, Some(libc::EBUSY)));
    let Details::Explanation(explanation) = error.details() else { panic!("{error:?}") };
    assert_eq!(explanation.causes[0].support, Support::Certain);
    assert!(explanation.causes[0].evidence.contains("by-hand"), "{explanation}");
    assert!(explanation.kernel_log.iter().any(|line| line.contains("locked by external")), "{explanation}");
    assert!(error.to_string().contains("locked by hand"), "{error}");
}

#[test]
fn a_lock_that_another_mapping_keeps_is_explained_by_that_mapping() {
    let image = TestImage::new("exclusive");
    let first = attach().map(&image.spec(), &MapOptions::new().exclusive()).unwrap();
    let error = attach().map(&image.spec(), &MapOptions::new().exclusive().no_share()).unwrap_err();
    assert_eq!((error.kind(), error.errno()), (ErrorKind::LockHeld, Some(libc::EROFS)));
    let Details::Explanation(explanation) = error.details() else { panic!("{error:?}") };
    let evidence = &explanation.causes[0].evidence;
    assert!(evidence.contains(first.node.to_str().unwrap()), "{explanation}");
    unmap(&first);
}

#[test]
fn a_user_who_may_not_write_is_told_so() {
    ceph(&["auth", "get-or-create", "client.looker", "mon", "profile rbd", "osd", "profile rbd-read-only"]);
    let image = TestImage::new("looked-at");
    let builder = Cluster::builder().config_file(share().join("ceph.conf")).user("looker");
    let builder = builder.key(cluster().auth_key("client.looker").unwrap()).deadline(Duration::from_secs(120));
    let looker = Attach::new(&builder.connect().unwrap(), &krbd());
    let error = looker.map(&image.spec(), &MapOptions::new()).unwrap_err();
    assert_eq!((error.kind(), error.errno()), (ErrorKind::PermissionDenied, Some(libc::EPERM)));
    let Details::Explanation(explanation) = error.details() else { panic!("{error:?}") };
    assert!(explanation.causes[0].cause.contains("capabilities"), "{explanation}");
    unmap(&looker.map(&image.spec(), &MapOptions::new().read_only()).unwrap());
}

#[test]
fn a_shared_client_that_is_blocklisted_is_named_with_its_device() {
    let image = TestImage::new("fenced");
    let options: MapOptions = "osd_idle_ttl=58".parse().unwrap();
    let device = attach().map(&image.spec(), &options).unwrap();
    ceph(&["osd", "blocklist", "add", &device.client_address.unwrap().to_string(), "600"]);
    until(PATIENCE, || (image.watchers() == "Watchers: none\n").then_some(()));
    let error = attach().map(&image.spec(), &options).unwrap_err();
    assert_eq!((error.kind(), error.errno()), (ErrorKind::Blocklisted, Some(libc::ESHUTDOWN)));
    let Details::Explanation(explanation) = error.details() else { panic!("{error:?}") };
    let cause = &explanation.causes[0];
    assert_eq!(cause.support, Support::Certain);
    assert!(
        cause.evidence.contains(device.node.to_str().unwrap()) && cause.remedy.contains("noshare"),
        "{explanation}"
    );
    unmap(&attach().map(&image.spec(), &options.no_share()).unwrap());
    unmap(&device);
    ceph(&["osd", "blocklist", "rm", &device.client_address.unwrap().to_string()]);
}

/// A process in a mount namespace of its own; it ends with the guard.
struct Namespace(Child);

impl Namespace {
    fn new() -> Self {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-c", "echo in; exec sleep 600"]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = [0; 3];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut line).unwrap();
        Self(child)
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Case B14: the mount is gone here and lives on in a namespace that was made meanwhile.
#[test]
fn a_mount_that_leaked_into_another_namespace_is_named_when_the_unmap_is_busy() {
    let image = TestImage::new("leaked");
    let device = image.map("").unwrap();
    let node = device.node.to_str().unwrap();
    let mount_point = mount_new(node);
    let at = mount_point.path().to_str().unwrap();
    let namespace = Namespace::new();
    run("umount", &[at]);

    let error = Detach::new(&krbd()).unmap(&device, &UnmapOptions::new().busy_retries(2)).unwrap_err();
    assert_eq!((error.kind(), error.errno()), (ErrorKind::Busy, Some(libc::EBUSY)));
    let Details::Holders { attempts: 3, holders } = error.details() else { panic!("{error:?}") };
    let text = holders.to_string();
    assert!(text.contains(at) && text.contains(&namespace.0.id().to_string()), "{text}");
    assert!(error.to_string().contains(at), "{error}");

    drop(namespace);
    unmap(&device);
}
