//! Configuration as it holds for one image.

use super::Image;
use crate::error::{Error, Result};

impl Image {
    /// The value of an option of librbd (`rbd_…`) for this image: its own, else its pool's, else the connection's.
    ///
    /// # Errors
    ///
    /// `NotFound` for an option that librbd does not know or that cannot differ between images.
    #[doc(alias = "rbd_config_image_list")]
    pub fn config(&self, option: &str) -> Result<String> {
        const READ: &str = "read option of image";
        let options = self.call(READ, |image| image.config())?;
        let value = options.into_iter().find_map(|(name, value)| (name == option).then_some(value));
        value.ok_or_else(|| {
            Error::from_errno(READ, libc::ENOENT).with_object(format_args!("{option} of {}", self.label))
        })
    }
}
