//! Filling in a request from the connection.

use super::with_cluster::Attach;
use crate::config::configured_credentials;
use crate::deadline::Deadline;
use crate::error::{Error, ErrorKind, Result};
use crate::krbd::{Credentials, MapOptions, MapRequest};
use crate::name::ImageSpec;

impl Attach {
    pub(super) fn fill(&self, spec: &ImageSpec, options: &MapOptions, deadline: Deadline) -> Result<MapRequest> {
        let spec = match spec.pool() {
            Some(_) => spec.clone(),
            None => spec.clone().with_default_pool(&self.cluster.default_pool()?),
        };
        let options = if self.default_options {
            let defaults = self
                .cluster
                .until(deadline)
                .open_read_only(&spec)?
                .until(deadline)
                .config("rbd_default_map_options")?;
            options.clone().or(&defaults.parse()?)
        } else {
            options.clone()
        };
        Ok(MapRequest::new(self.cluster.until(deadline).monitors()?, self.credentials(deadline)?, spec)
            .options(options))
    }

    /// The user of the connection with the key that librados found, or would: `key`, `keyfile`, the first keyring that
    /// is there. As a last resort the monitors are asked, who tell an administrator.
    fn credentials(&self, deadline: Deadline) -> Result<Credentials> {
        let entity = self.cluster.entity()?;
        let Some(user) = entity.strip_prefix("client.") else {
            return Err(Error::new(ErrorKind::InvalidInput, "map as")
                .with_object(&entity)
                .with_hint("the kernel takes users of type client only"));
        };
        let option = |name: &str| self.cluster.connection.rados.config(name).ok();
        match configured_credentials(user, option)? {
            Some(credentials) => Ok(credentials),
            None => Ok(Credentials::new(user, self.cluster.until(deadline).auth_key(&entity)?)),
        }
    }
}
