//! A program with these bindings links the installed libraries, and they answer.

use std::ptr::{null, null_mut};

#[test]
fn librados_makes_a_handle_and_librbd_says_its_version() {
    let mut cluster = null_mut();
    // SAFETY: librados writes the new handle to `cluster`, and takes NULL for "no user name".
    assert_eq!(unsafe { ceph_sys::rados_create(&mut cluster, null()) }, 0);
    // SAFETY: `cluster` is a handle that is not connected, and is not used again.
    unsafe { ceph_sys::rados_shutdown(cluster) };

    let (mut major, mut minor, mut extra) = (0, 0, 0);
    // SAFETY: librbd writes three integers.
    unsafe { ceph_sys::rbd_version(&mut major, &mut minor, &mut extra) };
    let bound = (ceph_sys::LIBRBD_VER_MAJOR as i32, ceph_sys::LIBRBD_VER_MINOR as i32);
    assert!((major, minor) >= bound, "{major}.{minor} is older than the bindings");
}
