//! Filling in a request from the connection.

use super::with_cluster::Attach;
use std::path::Path;

use crate::config::Config;
use crate::deadline::Deadline;
use crate::error::{Error, ErrorKind, Result};
use crate::krbd::{Credentials, MapOptions, MapRequest};
use crate::name::ImageSpec;
use crate::secret::Secret;

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
        let option = |name: &str| self.cluster.connection.rados.config(name).ok().filter(|value| !value.is_empty());
        if option("auth_client_required").is_some_and(|required| required.trim() == "none") {
            return Ok(Credentials::without_key(user));
        }
        if let Some(key) = option("key") {
            return Ok(Credentials::new(user, Secret::new(key)));
        }
        if let Some(file) = option("keyfile") {
            let key = std::fs::read_to_string(&file);
            let key = key.map_err(|error| Error::from_io("read key file", error).with_object(file))?;
            return Ok(Credentials::new(user, Secret::new(key)));
        }
        let keyrings = option("keyring").unwrap_or_default();
        let mut keyrings = keyrings.split([',', ';', ' ']).map(Path::new);
        match keyrings.find(|path| path.is_file()) {
            Some(keyring) => Config::parse("")?.user(user).credentials_in(keyring),
            None => Ok(Credentials::new(user, self.cluster.until(deadline).auth_key(&entity)?)),
        }
    }
}
