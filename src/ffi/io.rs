//! `rados_ioctx_t`: objects of one pool and namespace. Its settings are made before it is shared and never changed.

use std::ffi::{CStr, c_char};
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::Arc;

use ceph_sys::rados_ioctx_t;

use super::cluster::RadosHandle;
use super::operation::Operation;
use super::{Errno, buffer, c_string, check, grow};

/// An I/O context, which keeps its connection alive.
#[derive(Debug)]
pub(crate) struct IoHandle {
    raw: rados_ioctx_t,
    /// Dropped after the context: `rados_ioctx_destroy` comes before `rados_shutdown`.
    cluster: Arc<RadosHandle>,
}

// SAFETY: librados.h (`rados_ioctx_t`): only changing the settings (locator key, snapshot, namespace) is not
// thread-safe. They are set in `create`, before anybody else has the handle.
unsafe impl Send for IoHandle {}
// SAFETY: as above.
unsafe impl Sync for IoHandle {}

/// Size in bytes, and the time of the last change in seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) size: u64,
    pub(crate) modified: i64,
}

/// Keys and values of an object's omap, and whether there are more.
pub(crate) type OmapPage = (Vec<Pair>, bool);

/// A key, or an attribute's name, and its value.
pub(crate) type Pair = (Vec<u8>, Vec<u8>);

impl IoHandle {
    pub(crate) fn create(cluster: &Arc<RadosHandle>, pool: i64, namespace: Option<&str>) -> Result<Self, Errno> {
        let mut raw = ptr::null_mut();
        // SAFETY: a connected handle; the context is set on success only.
        check(unsafe { ceph_sys::rados_ioctx_create2(cluster.as_raw(), pool, &mut raw) })?;
        let io = Self { raw, cluster: Arc::clone(cluster) };
        if let Some(namespace) = namespace {
            let namespace = c_string(namespace)?;
            // SAFETY: nobody else has this context yet; the name is copied.
            unsafe { ceph_sys::rados_ioctx_set_namespace(io.raw, namespace.as_ptr()) };
        }
        Ok(io)
    }

    pub(crate) fn as_raw(&self) -> rados_ioctx_t {
        self.raw
    }

    pub(crate) fn cluster(&self) -> &RadosHandle {
        &self.cluster
    }

    pub(crate) fn enable_application(&self, application: &str) -> Result<(), Errno> {
        let application = c_string(application)?;
        // SAFETY: a context that is alive and a NUL-terminated name.
        check(unsafe { ceph_sys::rados_application_enable(self.raw, application.as_ptr(), 0) }).map(drop)
    }

    /// Size and time of the last change. `bind` gets the operation while it is under way.
    pub(crate) fn stat(self: &Arc<Self>, object: &str, bind: impl FnOnce(&Arc<Operation>)) -> Result<Stat, Errno> {
        let object = c_string(object)?;
        let (mut size, mut modified) = (0, 0);
        let operation = Operation::new(self)?;
        // SAFETY: a context and a new completion that are alive, a NUL-terminated name, which is copied, and two places
        // to write to until the operation has ended, for which `finish` waits.
        check(unsafe {
            ceph_sys::rados_aio_stat(self.raw, object.as_ptr(), operation.completion(), &mut size, &mut modified)
        })?;
        operation.finish(bind)?;
        Ok(Stat { size, modified })
    }

    /// Reads up to `length` bytes; fewer where the object ends. `bind` gets the operation while it is
    /// under way.
    pub(crate) fn read(
        self: &Arc<Self>,
        object: &str,
        offset: u64,
        length: usize,
        bind: impl FnOnce(&Arc<Operation>),
    ) -> Result<Vec<u8>, Errno> {
        if length == 0 {
            // C would read the whole object, and find its buffer too small.
            return self.stat(object, bind).map(|_| Vec::new());
        }
        let object = c_string(object)?;
        let mut buffer = buffer(length)?;
        let operation = Operation::new(self)?;
        let (completion, start) = (operation.completion(), buffer.as_mut_ptr().cast());
        // SAFETY: a context and a new completion that are alive, a NUL-terminated name, which is copied, and `length`
        // bytes of room until the operation has ended, for which `finish` waits.
        check(unsafe { ceph_sys::rados_aio_read(self.raw, object.as_ptr(), completion, start, length, offset) })?;
        let read = usize::try_from(operation.finish(bind)?).map_err(|_| Errno::INVALID)?.min(length);
        // SAFETY: that many bytes were written, which the capacity holds.
        unsafe { buffer.set_len(read) };
        Ok(buffer)
    }

    pub(crate) fn write(&self, object: &str, offset: u64, data: &[u8]) -> Result<(), Errno> {
        let object = c_string(object)?;
        let (start, length) = (data.as_ptr().cast(), data.len());
        // SAFETY: the call reads `length` bytes of the slice and returns after that.
        check(unsafe { ceph_sys::rados_write(self.raw, object.as_ptr(), start, length, offset) }).map(drop)
    }

    pub(crate) fn write_full(&self, object: &str, data: &[u8]) -> Result<(), Errno> {
        let object = c_string(object)?;
        let (start, length) = (data.as_ptr().cast(), data.len());
        // SAFETY: as in `write`.
        check(unsafe { ceph_sys::rados_write_full(self.raw, object.as_ptr(), start, length) }).map(drop)
    }

    pub(crate) fn remove(&self, object: &str) -> Result<(), Errno> {
        let object = c_string(object)?;
        // SAFETY: a context that is alive and a NUL-terminated name.
        check(unsafe { ceph_sys::rados_remove(self.raw, object.as_ptr()) }).map(drop)
    }

    pub(crate) fn xattr(&self, object: &str, name: &str) -> Result<Vec<u8>, Errno> {
        let (object, name) = (c_string(object)?, c_string(name)?);
        grow(512, |buffer: &mut [MaybeUninit<u8>], size| {
            let start = buffer.as_mut_ptr().cast();
            // SAFETY: the buffer has that many bytes.
            let read =
                unsafe { ceph_sys::rados_getxattr(self.raw, object.as_ptr(), name.as_ptr(), start, buffer.len()) };
            *size = usize::try_from(read).unwrap_or(0);
            read
        })
    }

    pub(crate) fn set_xattr(&self, object: &str, name: &str, value: &[u8]) -> Result<(), Errno> {
        let (object, name) = (c_string(object)?, c_string(name)?);
        let (start, length) = (value.as_ptr().cast(), value.len());
        // SAFETY: the call reads `length` bytes of the slice and returns after that.
        check(unsafe { ceph_sys::rados_setxattr(self.raw, object.as_ptr(), name.as_ptr(), start, length) }).map(drop)
    }

    /// All extended attributes, by name.
    pub(crate) fn xattrs(&self, object: &str) -> Result<Vec<Pair>, Errno> {
        /// `rados_getxattrs_end` on every way out.
        struct Iterator(ceph_sys::rados_xattrs_iter_t);
        impl Drop for Iterator {
            fn drop(&mut self) {
                // SAFETY: made by `rados_getxattrs`, ended once.
                unsafe { ceph_sys::rados_getxattrs_end(self.0) };
            }
        }

        let object = c_string(object)?;
        let mut raw = ptr::null_mut();
        // SAFETY: the iterator is set on success only.
        check(unsafe { ceph_sys::rados_getxattrs(self.raw, object.as_ptr(), &mut raw) })?;
        let iterator = Iterator(raw);
        let mut found = Vec::new();
        loop {
            let (mut name, mut value, mut length) = (ptr::null(), ptr::null(), 0);
            // SAFETY: an iterator that is alive and three places to write to.
            check(unsafe { ceph_sys::rados_getxattrs_next(iterator.0, &mut name, &mut value, &mut length) })?;
            if name.is_null() {
                return Ok(found);
            }
            // SAFETY: the name ends with a NUL and lives until the next call.
            let name = unsafe { CStr::from_ptr(name) }.to_bytes().to_vec();
            // SAFETY: the value has that many bytes until the next call.
            found.push((name, unsafe { bytes(value, length) }));
        }
    }

    /// Up to `limit` pairs of an object's omap whose key comes after `after` and begins with `prefix`.
    pub(crate) fn omap(&self, object: &str, after: &[u8], prefix: &str, limit: u64) -> Result<OmapPage, Errno> {
        let object = c_string(object)?;
        // A key with a NUL cannot be the place to go on from: C would see it cut off, and answer with it for ever.
        let (after, prefix) = (c_string(after)?, c_string(prefix)?);
        let operation = ReadOperation::new();
        let (mut iterator, mut more, mut result) = (OmapIterator(ptr::null_mut()), 0_u8, 0);
        // SAFETY: the strings are copied; the three results are written by `rados_read_op_operate` below, before they
        // go out of scope.
        unsafe {
            ceph_sys::rados_read_op_omap_get_vals2(
                operation.0,
                after.as_ptr(),
                prefix.as_ptr(),
                limit,
                &mut iterator.0,
                &mut more,
                &mut result,
            );
        }
        // SAFETY: an operation and a context that are alive.
        check(unsafe { ceph_sys::rados_read_op_operate(operation.0, self.raw, object.as_ptr(), 0) })?;
        check(result)?;
        Ok((iterator.pairs()?, more != 0))
    }
}

/// One watch as the C libraries list it: the address still text, which their callers parse.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Watch {
    pub(crate) address: String,
    pub(crate) client: u64,
    pub(crate) cookie: u64,
    /// Only where the call tells it.
    pub(crate) timeout_seconds: Option<u32>,
}

impl Drop for IoHandle {
    fn drop(&mut self) {
        if !self.cluster.is_inherited() {
            // SAFETY: ours alone, destroyed once; it waits for nothing, so it may come inside a callback too.
            unsafe { ceph_sys::rados_ioctx_destroy(self.raw) };
        }
    }
}

/// `rados_read_op_t`, released on every way out.
struct ReadOperation(ceph_sys::rados_read_op_t);

impl ReadOperation {
    fn new() -> Self {
        // SAFETY: it takes nothing and gives an operation that is ours.
        Self(unsafe { ceph_sys::rados_create_read_op() })
    }
}

impl Drop for ReadOperation {
    fn drop(&mut self) {
        // SAFETY: made by `rados_create_read_op`, released once.
        unsafe { ceph_sys::rados_release_read_op(self.0) };
    }
}

/// `rados_omap_iter_t`, ended on every way out; null where the operation did not get as far.
struct OmapIterator(ceph_sys::rados_omap_iter_t);

impl OmapIterator {
    fn pairs(&mut self) -> Result<Vec<Pair>, Errno> {
        let mut found = Vec::new();
        if self.0.is_null() {
            return Ok(found);
        }
        loop {
            let (mut key, mut value): (*mut c_char, *mut c_char) = (ptr::null_mut(), ptr::null_mut());
            let (mut key_length, mut length) = (0, 0);
            // SAFETY: an iterator that is alive and four places to write to.
            let code =
                unsafe { ceph_sys::rados_omap_get_next2(self.0, &mut key, &mut value, &mut key_length, &mut length) };
            check(code)?;
            if key.is_null() {
                return Ok(found);
            }
            // SAFETY: key and value have these lengths until the iterator ends.
            found.push(unsafe { (bytes(key, key_length), bytes(value, length)) });
        }
    }
}

impl Drop for OmapIterator {
    fn drop(&mut self) {
        if !self.0.is_null() {
            // SAFETY: made by the read operation, ended once.
            unsafe { ceph_sys::rados_omap_get_end(self.0) };
        }
    }
}

/// Copies `length` bytes; null is none.
///
/// # Safety
///
/// `start` is null or has `length` bytes.
unsafe fn bytes(start: *const c_char, length: usize) -> Vec<u8> {
    if start.is_null() {
        return Vec::new();
    }
    // SAFETY: by the function's contract.
    unsafe { std::slice::from_raw_parts(start.cast::<u8>(), length) }.to_vec()
}
