//! What librbd tells about an open image, one C call a function.

use std::mem::MaybeUninit;
use std::time::{Duration, SystemTime};

use super::image::ImageHandle;
use super::{Errno, c_string, check, grow, grow_text, text};

/// Size and layout (`rbd_stat`), in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layout {
    pub(crate) size: u64,
    pub(crate) object_size: u64,
    pub(crate) objects: u64,
    pub(crate) order: u8,
}

/// The parent of a clone (`rbd_get_parent`).
#[derive(Debug)]
pub(crate) struct ParentText {
    pub(crate) pool: String,
    pub(crate) namespace: String,
    pub(crate) image: String,
    pub(crate) image_id: String,
    pub(crate) snapshot: String,
    pub(crate) trash: bool,
}

/// Mirroring of an image (`rbd_mirror_image_get_info`).
#[derive(Debug)]
pub(crate) struct MirrorText {
    pub(crate) state: ceph_sys::rbd_mirror_image_state_t,
    pub(crate) global_id: String,
    pub(crate) primary: bool,
}

impl ImageHandle {
    pub(crate) fn layout(&self) -> Result<Layout, Errno> {
        let mut info = MaybeUninit::<ceph_sys::rbd_image_info_t>::zeroed();
        // SAFETY: an open image, a place for the struct and its size.
        check(unsafe { ceph_sys::rbd_stat(self.raw(), info.as_mut_ptr(), size_of::<ceph_sys::rbd_image_info_t>()) })?;
        // SAFETY: zeroed, which is a value of this struct of integers and bytes, and filled by the call.
        let info = unsafe { info.assume_init() };
        Ok(Layout {
            size: info.size,
            object_size: info.obj_size,
            objects: info.num_objs,
            order: u8::try_from(info.order).unwrap_or(u8::MAX),
        })
    }

    pub(crate) fn name(&self) -> Result<String, Errno> {
        grow_text(128, |buffer, mut size| {
            // SAFETY: the buffer has `size` bytes; on -ERANGE the call sets the size that it needs.
            unsafe { ceph_sys::rbd_get_name(self.raw(), buffer, &mut size) }
        })
    }

    /// The id; of a format 1 image, which has none, `EINVAL`.
    pub(crate) fn id(&self) -> Result<String, Errno> {
        grow_text(64, |buffer, size| {
            // SAFETY: the buffer has `size` bytes.
            unsafe { ceph_sys::rbd_get_id(self.raw(), buffer, size) }
        })
    }

    pub(crate) fn block_name_prefix(&self) -> Result<String, Errno> {
        grow_text(64, |buffer, size| {
            // SAFETY: the buffer has `size` bytes.
            unsafe { ceph_sys::rbd_get_block_name_prefix(self.raw(), buffer, size) }
        })
    }

    pub(crate) fn is_format_1(&self) -> Result<bool, Errno> {
        let mut old = 0_u8;
        // SAFETY: an open image and a place to write to.
        check(unsafe { ceph_sys::rbd_get_old_format(self.raw(), &mut old) })?;
        Ok(old != 0)
    }

    /// The pool of the data objects: the image's own unless it was made with another.
    pub(crate) fn data_pool_id(&self) -> Result<i64, Errno> {
        // SAFETY: an open image.
        check(unsafe { ceph_sys::rbd_get_data_pool_id(self.raw()) })
    }

    fn u64_from(
        &self,
        get: unsafe extern "C" fn(ceph_sys::rbd_image_t, *mut u64) -> std::ffi::c_int,
    ) -> Result<u64, Errno> {
        let mut value = 0;
        // SAFETY: the functions handed in take an open image and a place for a u64.
        check(unsafe { get(self.raw(), &mut value) })?;
        Ok(value)
    }

    pub(crate) fn features(&self) -> Result<u64, Errno> {
        self.u64_from(ceph_sys::rbd_get_features)
    }

    pub(crate) fn op_features(&self) -> Result<u64, Errno> {
        self.u64_from(ceph_sys::rbd_get_op_features)
    }

    pub(crate) fn flags(&self) -> Result<u64, Errno> {
        self.u64_from(ceph_sys::rbd_get_flags)
    }

    pub(crate) fn overlap(&self) -> Result<u64, Errno> {
        self.u64_from(ceph_sys::rbd_get_overlap)
    }

    pub(crate) fn stripe_unit(&self) -> Result<u64, Errno> {
        self.u64_from(ceph_sys::rbd_get_stripe_unit)
    }

    pub(crate) fn stripe_count(&self) -> Result<u64, Errno> {
        self.u64_from(ceph_sys::rbd_get_stripe_count)
    }

    /// The largest number of snapshots; `u64::MAX` is no limit.
    pub(crate) fn snapshot_limit(&self) -> Result<u64, Errno> {
        self.u64_from(ceph_sys::rbd_snap_get_limit)
    }

    fn time_from(
        &self,
        get: unsafe extern "C" fn(ceph_sys::rbd_image_t, *mut libc::timespec) -> std::ffi::c_int,
    ) -> Result<Option<SystemTime>, Errno> {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the functions handed in take an open image and a place for a timespec.
        check(unsafe { get(self.raw(), &mut time) })?;
        // Images made before Ceph had these have zero.
        let (Ok(seconds @ 1..), Ok(nanoseconds)) = (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec)) else {
            return Ok(None);
        };
        Ok(SystemTime::UNIX_EPOCH.checked_add(Duration::new(seconds, nanoseconds.min(999_999_999))))
    }

    pub(crate) fn created(&self) -> Result<Option<SystemTime>, Errno> {
        self.time_from(ceph_sys::rbd_get_create_timestamp)
    }

    pub(crate) fn accessed(&self) -> Result<Option<SystemTime>, Errno> {
        self.time_from(ceph_sys::rbd_get_access_timestamp)
    }

    pub(crate) fn modified(&self) -> Result<Option<SystemTime>, Errno> {
        self.time_from(ceph_sys::rbd_get_modify_timestamp)
    }

    pub(crate) fn is_protected(&self, snapshot: &str) -> Result<bool, Errno> {
        let snapshot = super::c_string(snapshot)?;
        let mut protected = 0;
        // SAFETY: an open image, a NUL-terminated name and a place to write to.
        check(unsafe { ceph_sys::rbd_snap_is_protected(self.raw(), snapshot.as_ptr(), &mut protected) })?;
        Ok(protected != 0)
    }

    /// How many snapshots there are, those of groups, mirroring and the trash too.
    pub(crate) fn snapshot_count(&self) -> Result<usize, Errno> {
        let snapshots = grow(16, |buffer: &mut [MaybeUninit<ceph_sys::rbd_snap_info_t>], size| {
            // It takes and sets an int. A buffer of more than that many does not occur.
            let mut count = i32::try_from(*size).unwrap_or(i32::MAX);
            // SAFETY: the buffer has `count` places; the call writes one place more than it returns, which the count
            // of places includes, or fails with -ERANGE.
            let returned = unsafe { ceph_sys::rbd_snap_list(self.raw(), buffer.as_mut_ptr().cast(), &mut count) };
            *size = match usize::try_from(returned) {
                Ok(found) => found,
                Err(_) => usize::try_from(count).unwrap_or(0),
            };
            returned
        })?;
        if !snapshots.is_empty() {
            // SAFETY: these snapshots are from the call above, ended by an entry without a name, and freed once.
            unsafe { ceph_sys::rbd_snap_list_end(snapshots.as_ptr().cast_mut()) };
        }
        Ok(snapshots.len())
    }

    pub(crate) fn snapshot_id(&self, snapshot: &str) -> Result<u64, Errno> {
        let snapshot = super::c_string(snapshot)?;
        let mut id = 0;
        // SAFETY: an open image, a NUL-terminated name and a place to write to.
        check(unsafe { ceph_sys::rbd_snap_get_id(self.raw(), snapshot.as_ptr(), &mut id) })?;
        Ok(id)
    }

    /// The parent of a clone; of an image that is none, `ENOENT`.
    pub(crate) fn parent(&self) -> Result<ParentText, Errno> {
        let mut image = MaybeUninit::<ceph_sys::rbd_linked_image_spec_t>::zeroed();
        let mut snapshot = MaybeUninit::<ceph_sys::rbd_snap_spec_t>::zeroed();
        // SAFETY: an open image and two places, which are set on success only.
        check(unsafe { ceph_sys::rbd_get_parent(self.raw(), image.as_mut_ptr(), snapshot.as_mut_ptr()) })?;
        // SAFETY: both are set.
        let (mut image, mut snapshot) = unsafe { (image.assume_init(), snapshot.assume_init()) };
        // SAFETY: the call set NUL-terminated strings or null.
        let parent = unsafe {
            ParentText {
                pool: text(image.pool_name),
                namespace: text(image.pool_namespace),
                image: text(image.image_name),
                image_id: text(image.image_id),
                snapshot: text(snapshot.name),
                trash: image.trash,
            }
        };
        // SAFETY: from the call above, freed once.
        unsafe {
            ceph_sys::rbd_linked_image_spec_cleanup(&mut image);
            ceph_sys::rbd_snap_spec_cleanup(&mut snapshot);
        }
        Ok(parent)
    }

    /// The group that the image is in: its pool's id and its name.
    pub(crate) fn group(&self) -> Result<Option<(i64, String)>, Errno> {
        let size = size_of::<ceph_sys::rbd_group_info_t>();
        let mut group = MaybeUninit::<ceph_sys::rbd_group_info_t>::zeroed();
        // SAFETY: an open image, a place for the struct and its size.
        check(unsafe { ceph_sys::rbd_get_group(self.raw(), group.as_mut_ptr(), size) })?;
        // SAFETY: set by the call.
        let mut group = unsafe { group.assume_init() };
        // SAFETY: a NUL-terminated name, empty or null without a group.
        let name = unsafe { text(group.name) };
        let found = (!name.is_empty()).then_some((group.pool, name));
        // SAFETY: from the call above, freed once.
        unsafe { ceph_sys::rbd_group_info_cleanup(&mut group, size) };
        Ok(found)
    }

    /// Names and values of the options that an image can have of its own.
    pub(crate) fn config(&self) -> Result<Vec<(String, String)>, Errno> {
        let mut options = grow(128, |buffer: &mut [MaybeUninit<ceph_sys::rbd_config_option_t>], size| {
            let mut count = i32::try_from(*size).unwrap_or(i32::MAX);
            // SAFETY: the buffer has `count` places; on -ERANGE nothing is written but the count that it needs.
            let returned =
                unsafe { ceph_sys::rbd_config_image_list(self.raw(), buffer.as_mut_ptr().cast(), &mut count) };
            *size = usize::try_from(count).unwrap_or(0);
            returned
        })?;
        // SAFETY: the call set NUL-terminated strings.
        let list = options.iter().map(|option| unsafe { (text(option.name), text(option.value)) }).collect();
        let count = i32::try_from(options.len()).unwrap_or(i32::MAX);
        // SAFETY: these options are from the call above, and freed once.
        unsafe { ceph_sys::rbd_config_image_list_cleanup(options.as_mut_ptr(), count) };
        Ok(list)
    }

    pub(crate) fn mirror(&self) -> Result<MirrorText, Errno> {
        let size = size_of::<ceph_sys::rbd_mirror_image_info_t>();
        let mut info = MaybeUninit::<ceph_sys::rbd_mirror_image_info_t>::zeroed();
        // SAFETY: an open image, a place for the struct and its size.
        check(unsafe { ceph_sys::rbd_mirror_image_get_info(self.raw(), info.as_mut_ptr(), size) })?;
        // SAFETY: set by the call.
        let mut info = unsafe { info.assume_init() };
        // SAFETY: a NUL-terminated text or null.
        let global_id = unsafe { text(info.global_id) };
        let mirror = MirrorText { state: info.state, global_id, primary: info.primary };
        // SAFETY: from the call above, freed once.
        unsafe { ceph_sys::rbd_mirror_image_get_info_cleanup(&mut info) };
        Ok(mirror)
    }

    /// A value of the image's metadata.
    pub(crate) fn metadata(&self, key: &str) -> Result<String, Errno> {
        let key = c_string(key)?;
        grow_text(1024, |buffer, mut size| {
            // SAFETY: an open image, a NUL-terminated key and a buffer of `size` bytes.
            unsafe { ceph_sys::rbd_metadata_get(self.raw(), key.as_ptr(), buffer, &mut size) }
        })
    }

    pub(crate) fn mirror_mode(&self) -> Result<ceph_sys::rbd_mirror_image_mode_t, Errno> {
        let mut mode = 0;
        // SAFETY: an open image and a place to write to.
        check(unsafe { ceph_sys::rbd_mirror_image_get_mode(self.raw(), &mut mode) })?;
        Ok(mode)
    }
}
