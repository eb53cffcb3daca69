//! Functions that came after 16.2, looked up while the program runs.
//!
//! A program that mentions one of them as an ordinary `extern` function does not start on a library without it, for
//! rustc has all symbols bound at the start. Here each is a static of its C name:
//!
//! ```
//! use ceph_sys::newer;
//!
//! match newer::rbd_clone4.get() {
//!     Some(_clone) => { /* unsafe { _clone(…) } */ }
//!     None => println!("{} is missing: Ceph {} has it", newer::rbd_clone4.name(), newer::rbd_clone4.release()),
//! }
//! ```

use core::ffi::{CStr, c_char, c_int, c_void};
use core::marker::PhantomData;
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};

use libc::{iovec, timespec};

use crate::{
    rados_completion_t, rados_ioctx_t, rados_read_op_t, rados_write_op_t, rbd_completion_t, rbd_encryption_format_t,
    rbd_encryption_options_t, rbd_group_snap_state_t, rbd_image_options_t, rbd_image_t, rbd_snap_namespace_type_t,
};

/// A function of type `F` that the library in use may have or not.
#[derive(Debug)]
pub struct Newer<F> {
    name: &'static str,
    symbol: &'static CStr,
    release: &'static str,
    /// [`NOT_LOOKED_UP`], else what dlsym said: null if the function is missing.
    address: AtomicPtr<c_void>,
    function: PhantomData<F>,
}

/// No function is at this address.
const NOT_LOOKED_UP: *mut c_void = ptr::without_provenance_mut(1);

impl<F: Copy> Newer<F> {
    /// `F` is the type of a pointer to the function that `symbol`, which is `name` and a NUL, stands for.
    const fn new(name: &'static str, symbol: &'static str, release: &'static str) -> Self {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        // Both are checked by the compiler and cannot panic in a program: every `Newer` is a static.
        let Ok(symbol) = CStr::from_bytes_with_nul(symbol.as_bytes()) else {
            panic!("a symbol ends with its only NUL");
        };
        Self { name, symbol, release, address: AtomicPtr::new(NOT_LOOKED_UP), function: PhantomData }
    }

    /// The function, or `None` when the library in use has none of that name. Only the first call asks the dynamic
    /// linker.
    #[doc(alias = "dlsym")]
    pub fn get(&self) -> Option<F> {
        let mut address = self.address.load(Ordering::Acquire);
        if address == NOT_LOOKED_UP {
            // SAFETY: dlsym takes `RTLD_DEFAULT`, all that the program is linked with, and a C string.
            address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, self.symbol.as_ptr()) };
            self.address.store(address, Ordering::Release);
        }
        // SAFETY: `address` is the function's, and `F` a pointer to a function of that type: see `new`.
        (!address.is_null()).then(|| unsafe { core::mem::transmute_copy::<*mut c_void, F>(&address) })
    }

    /// The C name.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// The release whose headers the declaration was taken from, the older one of 18.2 and 20.2 if both have it. Other
    /// releases may have got the function too, in the course of their maintenance: [`get`](Self::get) decides, and this
    /// is for the message.
    pub const fn release(&self) -> &'static str {
        self.release
    }
}

macro_rules! newer {
    ($release:literal, $(
        $(#[$attribute:meta])*
        fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(-> $result:ty)?;
    )*) => {$(
        $(#[$attribute])*
        #[allow(non_upper_case_globals)]
        pub static $name: Newer<unsafe extern "C" fn($($argument: $type),*) $(-> $result)?> =
            Newer::new(stringify!($name), concat!(stringify!($name), "\0"), $release);
    )*};
}

newer! {
    "18.2",

    /// `rados_stat` with the time to the nanosecond.
    fn rados_stat2(io: rados_ioctx_t, object: *const c_char, size: *mut u64, mtime: *mut timespec) -> c_int;

    /// `rados_aio_stat` with the time to the nanosecond.
    fn rados_aio_stat2(
        io: rados_ioctx_t,
        object: *const c_char,
        completion: rados_completion_t,
        size: *mut u64,
        mtime: *mut timespec,
    ) -> c_int;

    /// `rados_read_op_stat` with the time to the nanosecond.
    fn rados_read_op_stat2(op: rados_read_op_t, size: *mut u64, mtime: *mut timespec, result: *mut c_int);

    /// `rados_aio_write_op_operate` with the time to the nanosecond.
    fn rados_aio_write_op_operate2(
        op: rados_write_op_t,
        io: rados_ioctx_t,
        completion: rados_completion_t,
        object: *const c_char,
        mtime: *mut timespec,
        flags: c_int,
    ) -> c_int;

    /// `rbd_aio_compare_and_write` from and to several buffers.
    fn rbd_aio_compare_and_writev(
        image: rbd_image_t,
        offset: u64,
        compare: *const iovec,
        compare_count: c_int,
        write: *const iovec,
        write_count: c_int,
        completion: rbd_completion_t,
        mismatch_offset: *mut u64,
        flags: c_int,
    ) -> isize;

    /// `rbd_diff_iterate2` from a snapshot given by its id, with `RBD_DIFF_ITERATE_FLAG_*`.
    fn rbd_diff_iterate3(
        image: rbd_image_t,
        from_snap_id: u64,
        offset: u64,
        length: u64,
        flags: u32,
        callback: Option<
            unsafe extern "C" fn(offset: u64, length: usize, exists: c_int, argument: *mut c_void) -> c_int,
        >,
        argument: *mut c_void,
    ) -> c_int;

    /// `rbd_encryption_load` for an image and the parents that it was cloned from.
    fn rbd_encryption_load2(image: rbd_image_t, specs: *const rbd_encryption_spec_t, count: usize) -> c_int;
}

newer! {
    "20.2",

    /// `rbd_aio_write2` with the checksum of the data, computed before.
    fn rbd_aio_write_with_crc32c(
        image: rbd_image_t,
        offset: u64,
        length: usize,
        data: *const c_char,
        crc32c: u32,
        completion: rbd_completion_t,
        flags: c_int,
    ) -> c_int;

    /// `rbd_clone3` from a snapshot given by its id.
    fn rbd_clone4(
        parent_io: rados_ioctx_t,
        parent_name: *const c_char,
        parent_snap_id: u64,
        child_io: rados_ioctx_t,
        child_name: *const c_char,
        options: rbd_image_options_t,
    ) -> c_int;

    /// The id of a group.
    fn rbd_group_get_id(io: rados_ioctx_t, group: *const c_char, id: *mut c_char, size: *mut usize) -> c_int;

    /// A snapshot of a group, with the images' snapshots that it is made of.
    fn rbd_group_snap_get_info(
        io: rados_ioctx_t,
        group: *const c_char,
        snap: *const c_char,
        info: *mut rbd_group_snap_info2_t,
    ) -> c_int;

    /// Frees what `rbd_group_snap_get_info` gave.
    fn rbd_group_snap_get_info_cleanup(info: *mut rbd_group_snap_info2_t);

    /// `rbd_group_snap_list` with all that `rbd_group_snap_get_info` says of each.
    fn rbd_group_snap_list2(
        io: rados_ioctx_t,
        group: *const c_char,
        snaps: *mut rbd_group_snap_info2_t,
        count: *mut usize,
    ) -> c_int;

    /// Frees what `rbd_group_snap_list2` gave.
    fn rbd_group_snap_list2_cleanup(snaps: *mut rbd_group_snap_info2_t, count: usize);

    /// The namespace of the other cluster that this one is mirrored with.
    fn rbd_mirror_remote_namespace_get(io: rados_ioctx_t, namespace: *mut c_char, size: *mut usize) -> c_int;

    /// Sets the namespace of the other cluster that this one is mirrored with.
    fn rbd_mirror_remote_namespace_set(io: rados_ioctx_t, namespace: *const c_char) -> c_int;

    /// `rbd_snap_get_trash_namespace` with the type that the snapshot had before.
    fn rbd_snap_get_trash_namespace2(
        image: rbd_image_t,
        snap_id: u64,
        trash: *mut rbd_snap_trash_namespace_t,
        trash_size: usize,
    ) -> c_int;

    /// Frees what `rbd_snap_get_trash_namespace2` gave.
    fn rbd_snap_trash_namespace_cleanup(trash: *mut rbd_snap_trash_namespace_t, trash_size: usize) -> c_int;
}

/// For [`rbd_encryption_load2`].
#[allow(non_camel_case_types)]
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rbd_encryption_spec_t {
    /// The format, `RBD_ENCRYPTION_FORMAT_*`.
    pub format: rbd_encryption_format_t,
    /// The format's options: a pointer to their struct.
    pub opts: rbd_encryption_options_t,
    /// The size of that struct in bytes.
    pub opts_size: usize,
}

/// An image's snapshot in [`rbd_group_snap_info2_t`].
#[allow(non_camel_case_types)]
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rbd_group_image_snap_info_t {
    /// The image, a C string.
    pub image_name: *mut c_char,
    /// The image's pool.
    pub pool_id: i64,
    /// The snapshot of the image.
    pub snap_id: u64,
}

/// For [`rbd_group_snap_get_info`] and [`rbd_group_snap_list2`].
#[allow(non_camel_case_types)]
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rbd_group_snap_info2_t {
    /// The snapshot's id, a C string.
    pub id: *mut c_char,
    /// The snapshot's name, a C string.
    pub name: *mut c_char,
    /// The name of the images' snapshots, a C string.
    pub image_snap_name: *mut c_char,
    /// `RBD_GROUP_SNAP_STATE_*`.
    pub state: rbd_group_snap_state_t,
    /// 0 for a snapshot made by a user.
    pub namespace_type: rbd_group_snap_namespace_type_t,
    /// The length of `image_snaps`.
    pub image_snaps_count: usize,
    /// The images' snapshots.
    pub image_snaps: *mut rbd_group_image_snap_info_t,
}

/// In [`rbd_group_snap_info2_t`].
#[allow(non_camel_case_types)]
pub type rbd_group_snap_namespace_type_t = core::ffi::c_uint;

/// For [`rbd_snap_get_trash_namespace2`].
#[allow(non_camel_case_types)]
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct rbd_snap_trash_namespace_t {
    /// The type before it went to the trash, `RBD_SNAP_NAMESPACE_TYPE_*`.
    pub original_namespace_type: rbd_snap_namespace_type_t,
    /// The name before it went to the trash, a C string.
    pub original_name: *mut c_char,
}

#[cfg(test)]
mod tests {
    use super::*;

    type NoArguments = unsafe extern "C" fn();

    #[test]
    fn a_function_that_the_library_has_is_found_and_remembered() {
        static VERSION: Newer<unsafe extern "C" fn(*mut c_int, *mut c_int, *mut c_int)> =
            Newer::new("rados_version", "rados_version\0", "16.2");
        let version = VERSION.get().expect("librados has it");
        assert_eq!(version as *const (), crate::rados_version as *const ());
        assert_eq!(VERSION.address.load(Ordering::Acquire), version as *mut c_void);

        let (mut major, mut minor, mut extra) = (0, 0, 0);
        // SAFETY: rados_version writes three integers.
        unsafe { version(&mut major, &mut minor, &mut extra) };
        assert_eq!(major, 3);
    }

    #[test]
    fn a_function_that_the_library_lacks_is_none_with_its_name_and_release() {
        static LACKING: Newer<NoArguments> = Newer::new("rbd_no_such_call", "rbd_no_such_call\0", "99.2");
        assert!(LACKING.get().is_none());
        assert!(LACKING.get().is_none(), "from memory");
        assert!(LACKING.address.load(Ordering::Acquire).is_null());
        assert_eq!((LACKING.name(), LACKING.release()), ("rbd_no_such_call", "99.2"));
    }

    #[test]
    fn each_function_is_looked_up_by_its_own_name() {
        assert_eq!(rbd_clone4.symbol, c"rbd_clone4");
        assert_eq!((rbd_clone4.name(), rbd_clone4.release()), ("rbd_clone4", "20.2"));
        assert_eq!((rados_stat2.name(), rados_stat2.release()), ("rados_stat2", "18.2"));
    }
}
