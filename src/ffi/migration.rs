//! Where an image that is being migrated comes from and goes to.

use std::mem::MaybeUninit;

use super::image::ImageHandle;
use super::{Errno, c_string, check, grow_text, text};

/// One side of a migration. The source's pool is negative where it is none of this cluster's.
#[derive(Debug)]
pub(crate) struct EndText {
    pub(crate) pool: i64,
    pub(crate) namespace: String,
    pub(crate) image: String,
    pub(crate) image_id: String,
}

#[derive(Debug)]
pub(crate) struct MigrationText {
    pub(crate) source: EndText,
    pub(crate) destination: EndText,
    pub(crate) state: ceph_sys::rbd_image_migration_state_t,
    pub(crate) description: String,
}

impl ImageHandle {
    pub(crate) fn migration(&self) -> Result<MigrationText, Errno> {
        type Status = ceph_sys::rbd_image_migration_status_t;
        let name = c_string(self.name()?)?;
        let mut status = MaybeUninit::<Status>::zeroed();
        // SAFETY: a context that is alive, a NUL-terminated name, a place for the struct and its size.
        check(unsafe {
            ceph_sys::rbd_migration_status(self.io().as_raw(), name.as_ptr(), status.as_mut_ptr(), size_of::<Status>())
        })?;
        // SAFETY: zeroed, which is a value of this struct of integers and pointers, and filled by the call.
        let mut status = unsafe { status.assume_init() };
        // SAFETY: the call set NUL-terminated strings, which are freed below.
        let found = unsafe {
            MigrationText {
                source: EndText {
                    pool: status.source_pool_id,
                    namespace: text(status.source_pool_namespace),
                    image: text(status.source_image_name),
                    image_id: text(status.source_image_id),
                },
                destination: EndText {
                    pool: status.dest_pool_id,
                    namespace: text(status.dest_pool_namespace),
                    image: text(status.dest_image_name),
                    image_id: text(status.dest_image_id),
                },
                state: status.state,
                description: text(status.state_description),
            }
        };
        // SAFETY: filled by the call above, and cleaned up once.
        unsafe { ceph_sys::rbd_migration_status_cleanup(&mut status) };
        Ok(found)
    }

    /// What a source that is no image of this cluster was given as: JSON.
    pub(crate) fn migration_source(&self) -> Result<String, Errno> {
        grow_text(256, |buffer, mut size| {
            // SAFETY: the buffer has `size` bytes; on -ERANGE the call sets the size that it needs.
            unsafe { ceph_sys::rbd_get_migration_source_spec(self.raw(), buffer, &mut size) }
        })
    }
}
