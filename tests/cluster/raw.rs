//! A program that has a `rados_t` of its own uses the library on it.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rbd::image::ImageOptions;
use rbd::{Cluster, ErrorKind};

use super::ledger;
use super::library::{OwnPool, image};
use super::support::TestCluster;

unsafe extern "C" {
    fn rados_create2(cluster: *mut *mut c_void, name: *const c_char, user: *const c_char, flags: u64) -> c_int;
    fn rados_conf_read_file(cluster: *mut c_void, path: *const c_char) -> c_int;
    fn rados_connect(cluster: *mut c_void) -> c_int;
    fn rados_get_instance_id(cluster: *mut c_void) -> u64;
    fn rados_shutdown(cluster: *mut c_void);
}

/// Another library's connection, which it shuts down when it is dropped.
struct Foreign {
    raw: *mut c_void,
    dropped: Arc<AtomicUsize>,
}

// SAFETY: librados' handles may be used and shut down on any thread.
unsafe impl Send for Foreign {}
// SAFETY: as above.
unsafe impl Sync for Foreign {}

impl Foreign {
    fn connect() -> (Self, Arc<AtomicUsize>) {
        let path = CString::new(TestCluster::shared().conf().as_os_str().as_bytes()).unwrap();
        let (user, mut raw): (&CStr, _) = (c"client.admin", ptr::null_mut());
        // SAFETY: NUL-terminated strings, and a handle that the first call has set.
        unsafe {
            assert_eq!(rados_create2(&mut raw, c"ceph".as_ptr(), user.as_ptr(), 0), 0);
            assert_eq!(rados_conf_read_file(raw, path.as_ptr()), 0);
            assert_eq!(rados_connect(raw), 0);
        }
        let dropped = Arc::new(AtomicUsize::new(0));
        (Self { raw, dropped: Arc::clone(&dropped) }, dropped)
    }

    fn into_library(self) -> Cluster {
        let raw = self.raw;
        // SAFETY: it is connected, and stays so until the guard, which is itself, is dropped.
        unsafe { Cluster::from_raw(raw, self) }
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        self.dropped.fetch_add(1, Ordering::SeqCst);
        // SAFETY: its own handle, shut down once.
        unsafe { rados_shutdown(self.raw) };
    }
}

#[test]
fn one_connection_serves_both_libraries() {
    let (foreign, _) = Foreign::connect();
    let raw = foreign.raw;
    let library = foreign.into_library();
    assert_eq!(library.as_raw(), raw);
    // SAFETY: a connected handle.
    assert_eq!(library.instance_id(), unsafe { rados_get_instance_id(raw) });
    assert_eq!(library.entity().unwrap(), "client.admin");
    assert_eq!(library.fsid().unwrap().to_string(), TestCluster::shared().ceph(["fsid"]).trim());
    let own = OwnPool::new();
    own.write_full("o", b"data").unwrap();
    assert_eq!(library.pool(own.name().clone()).unwrap().read("o", 0, 9).unwrap(), b"data");
    assert_eq!(library.pool("none").unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn the_guard_goes_once_and_after_the_last_handle() {
    ledger::run(|| {
        let own = OwnPool::new();
        own.create_image(&image("image"), 8 << 20, &ImageOptions::new()).unwrap();

        let (foreign, dropped) = Foreign::connect();
        let library = foreign.into_library();
        let image = library.pool(own.name().clone()).unwrap().open("image").unwrap();
        drop(library);
        image.write(0, b"data").unwrap();
        assert_eq!(dropped.load(Ordering::SeqCst), 0);
        // The ledger aborts if the guard shuts the connection down before the image is closed.
        drop(image);
        assert_eq!(dropped.load(Ordering::SeqCst), 1);

        let (foreign, dropped) = Foreign::connect();
        let library = foreign.into_library();
        assert_eq!(library.clone().disconnect().unwrap_err().kind(), ErrorKind::Busy);
        assert_eq!(dropped.load(Ordering::SeqCst), 0);
        library.disconnect().unwrap();
        assert_eq!(dropped.load(Ordering::SeqCst), 1);

        // Something that does not own the connection does as well.
        let (foreign, dropped) = Foreign::connect();
        // SAFETY: `foreign` outlives all that is made from it here.
        drop(unsafe { Cluster::from_raw(foreign.raw, ()) });
        assert_eq!(dropped.load(Ordering::SeqCst), 0);
        drop(foreign);
        assert_eq!(dropped.load(Ordering::SeqCst), 1);
    });
}
