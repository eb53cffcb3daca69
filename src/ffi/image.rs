//! `rbd_image_t`: open, use, and close once.

use std::ffi::{CString, c_int};
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::Arc;

use ceph_sys::rbd_image_t;

use super::callback::{self, Progress};
use super::io::{IoHandle, Watch};
use super::{Errno, c_string, check, grow, text};

/// An open image, which keeps its I/O context, and so its connection, alive.
#[derive(Debug)]
pub(crate) struct ImageHandle {
    raw: rbd_image_t,
    /// Dropped after the image: `rbd_close` comes before `rados_ioctx_destroy`.
    io: Arc<IoHandle>,
}

// SAFETY: librbd.h is silent; in the source every public call on an image takes the image's own locks (`owner_lock`,
// `image_lock`), and QEMU calls one image from many threads. The cluster tests do so under the address sanitizer.
unsafe impl Send for ImageHandle {}
// SAFETY: as above.
unsafe impl Sync for ImageHandle {}

/// How to find an image in its pool and namespace.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Find<'a> {
    Name(&'a str),
    Id(&'a str),
}

impl ImageHandle {
    pub(crate) fn open(
        io: &Arc<IoHandle>,
        find: Find<'_>,
        snapshot: Option<&str>,
        read_only: bool,
    ) -> Result<Self, Errno> {
        let snapshot = snapshot.map(c_string).transpose()?;
        let snapshot = snapshot.as_ref().map_or(ptr::null(), |name| name.as_ptr());
        let (Find::Name(key) | Find::Id(key)) = find;
        let key = c_string(key)?;
        let open = match (find, read_only) {
            (Find::Name(_), true) => ceph_sys::rbd_open_read_only,
            (Find::Name(_), false) => ceph_sys::rbd_open,
            (Find::Id(_), true) => ceph_sys::rbd_open_by_id_read_only,
            (Find::Id(_), false) => ceph_sys::rbd_open_by_id,
        };
        let mut raw = ptr::null_mut();
        // SAFETY: a context that is alive, NUL-terminated names (a null snapshot is none); the handle is set on
        // success only.
        check(unsafe { open(io.as_raw(), key.as_ptr(), &mut raw, snapshot) })?;
        Ok(Self { raw, io: Arc::clone(io) })
    }

    pub(super) fn raw(&self) -> rbd_image_t {
        self.raw
    }

    pub(crate) fn io(&self) -> &Arc<IoHandle> {
        &self.io
    }

    /// Closes now and says how it went; the handle is gone either way.
    pub(crate) fn close(self) -> Result<(), Errno> {
        let image = std::mem::ManuallyDrop::new(self);
        // SAFETY: `image` is never used or dropped after this: its context is moved out once.
        let io = unsafe { ptr::read(&image.io) };
        if io.cluster().is_inherited() {
            std::mem::forget(io);
            return Err(Errno(libc::ENOTCONN));
        }
        // SAFETY: the only close of this image: `self` was taken and is not dropped.
        check(unsafe { ceph_sys::rbd_close(image.raw) }).map(drop)
    }

    /// Who watches the image's header object. A handle that is open read-write is among them.
    pub(crate) fn watchers(&self) -> Result<Vec<Watch>, Errno> {
        let watchers = grow(16, |buffer: &mut [MaybeUninit<ceph_sys::rbd_image_watcher_t>], size| {
            // SAFETY: the buffer has `size` places; on -ERANGE nothing is written but the size.
            unsafe { ceph_sys::rbd_watchers_list(self.raw, buffer.as_mut_ptr().cast(), size) }
        });
        let mut watchers = watchers?;
        let list = watchers.iter().map(|watcher| Watch {
            // SAFETY: the call set a NUL-terminated address.
            address: unsafe { text(watcher.addr) },
            client: watcher.id.cast_unsigned(),
            cookie: watcher.cookie,
            timeout_seconds: None,
        });
        let list = list.collect();
        // SAFETY: these watchers are from the call above, and freed once.
        unsafe { ceph_sys::rbd_watchers_list_cleanup(watchers.as_mut_ptr(), watchers.len()) };
        Ok(list)
    }

    pub(crate) fn update_features(&self, features: u64, enable: bool) -> Result<(), Errno> {
        // SAFETY: an open image.
        check(unsafe { ceph_sys::rbd_update_features(self.raw, features, enable.into()) }).map(drop)
    }

    pub(crate) fn rebuild_object_map(&self, mut progress: Progress<'_>) -> Result<(), Errno> {
        // SAFETY: the progress value lives until the call returns, and only the trampoline touches it meanwhile.
        let code = check(unsafe {
            ceph_sys::rbd_rebuild_object_map(self.raw, Some(Progress::trampoline), progress.as_argument())
        });
        progress.finish();
        code.map(drop)
    }

    /// Fewer bytes than asked for where the image ends before them.
    pub(crate) fn read(&self, offset: u64, length: usize) -> Result<Vec<u8>, Errno> {
        // What is beyond the end needs no room: the caller may ask for more than there is memory.
        let left = self.layout()?.size.saturating_sub(offset);
        let length = usize::try_from(left).map_or(length, |left| length.min(left.max(1)));
        let mut buffer = super::buffer(length)?;
        // SAFETY: the buffer has `length` bytes of room.
        let read = check(unsafe { ceph_sys::rbd_read(self.raw, offset, length, buffer.as_mut_ptr().cast()) })?;
        // SAFETY: the call wrote that many bytes, at most `length`.
        unsafe { buffer.set_len(usize::try_from(read).unwrap_or(0).min(length)) };
        Ok(buffer)
    }

    pub(crate) fn write(&self, offset: u64, data: &[u8]) -> Result<(), Errno> {
        // SAFETY: the call reads that many bytes of the slice and returns after that.
        let written = check(unsafe { ceph_sys::rbd_write(self.raw, offset, data.len(), data.as_ptr().cast()) })?;
        // C leaves out what is beyond the end, and calls that a success.
        if usize::try_from(written) == Ok(data.len()) { Ok(()) } else { Err(Errno::INVALID) }
    }

    pub(crate) fn flush(&self) -> Result<(), Errno> {
        // SAFETY: an open image.
        check(unsafe { ceph_sys::rbd_flush(self.raw) }).map(drop)
    }
}

impl Drop for ImageHandle {
    fn drop(&mut self) {
        /// A raw handle on its way to the thread that closes it.
        struct Last(rbd_image_t, Arc<IoHandle>);
        // SAFETY: nobody else has it any more; see `Send for ImageHandle`.
        unsafe impl Send for Last {}

        if self.io.cluster().is_inherited() {
            return;
        }
        let last = Last(self.raw, Arc::clone(&self.io));
        callback::outside_callbacks(move || {
            // The whole value goes to the other thread, not its parts, of which one alone is not `Send`.
            let last = last;
            let Last(image, _io) = last;
            // SAFETY: the only close of this image: `self` owned it; its context lives until after the call.
            unsafe { ceph_sys::rbd_close(image) };
        });
    }
}

/// What a new image is to be like; what is `None` is the cluster's default.
#[derive(Debug, Default, Clone)]
pub(crate) struct ImageOptions {
    pub(crate) features: Option<u64>,
    pub(crate) order: Option<u64>,
    pub(crate) stripe: Option<(u64, u64)>,
    pub(crate) data_pool: Option<String>,
}

pub(crate) fn create(io: &IoHandle, name: &str, size: u64, options: &ImageOptions) -> Result<(), Errno> {
    /// `rbd_image_options_destroy` on every way out.
    struct Options(ceph_sys::rbd_image_options_t);
    impl Options {
        fn set(&self, option: u32, value: u64) -> Result<(), Errno> {
            let option = c_int::try_from(option).map_err(|_| Errno::INVALID)?;
            // SAFETY: options that are alive.
            check(unsafe { ceph_sys::rbd_image_options_set_uint64(self.0, option, value) }).map(drop)
        }
        fn set_text(&self, option: u32, value: &CString) -> Result<(), Errno> {
            let option = c_int::try_from(option).map_err(|_| Errno::INVALID)?;
            // SAFETY: options that are alive and a NUL-terminated string, which is copied.
            check(unsafe { ceph_sys::rbd_image_options_set_string(self.0, option, value.as_ptr()) }).map(drop)
        }
    }
    impl Drop for Options {
        fn drop(&mut self) {
            // SAFETY: made by `rbd_image_options_create`, destroyed once.
            unsafe { ceph_sys::rbd_image_options_destroy(self.0) };
        }
    }

    let name = c_string(name)?;
    let mut raw = ptr::null_mut();
    // SAFETY: it sets new options, which are ours.
    unsafe { ceph_sys::rbd_image_options_create(&mut raw) };
    let set = Options(raw);
    if let Some(features) = options.features {
        set.set(ceph_sys::RBD_IMAGE_OPTION_FEATURES, features)?;
    }
    if let Some(order) = options.order {
        set.set(ceph_sys::RBD_IMAGE_OPTION_ORDER, order)?;
    }
    if let Some((unit, count)) = options.stripe {
        set.set(ceph_sys::RBD_IMAGE_OPTION_STRIPE_UNIT, unit)?;
        set.set(ceph_sys::RBD_IMAGE_OPTION_STRIPE_COUNT, count)?;
    }
    if let Some(pool) = &options.data_pool {
        set.set_text(ceph_sys::RBD_IMAGE_OPTION_DATA_POOL, &c_string(pool.as_str())?)?;
    }
    // SAFETY: a context and options that are alive, and a NUL-terminated name.
    check(unsafe { ceph_sys::rbd_create4(io.as_raw(), name.as_ptr(), size, set.0) }).map(drop)
}

pub(crate) fn remove(io: &IoHandle, name: &str) -> Result<(), Errno> {
    let name = c_string(name)?;
    // SAFETY: a context that is alive and a NUL-terminated name.
    check(unsafe { ceph_sys::rbd_remove(io.as_raw(), name.as_ptr()) }).map(drop)
}

pub(crate) fn pool_init(io: &IoHandle) -> Result<(), Errno> {
    // SAFETY: a context that is alive; without force an application that is there already is an error.
    check(unsafe { ceph_sys::rbd_pool_init(io.as_raw(), false) }).map(drop)
}

pub(crate) fn namespace_exists(io: &IoHandle, namespace: &str) -> Result<bool, Errno> {
    let namespace = c_string(namespace)?;
    let mut exists = false;
    // SAFETY: a context that is alive, a NUL-terminated name and a place to write to.
    check(unsafe { ceph_sys::rbd_namespace_exists(io.as_raw(), namespace.as_ptr(), &mut exists) })?;
    Ok(exists)
}
