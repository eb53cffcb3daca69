//! Map, or take the mapping that is there; and follow a mapping's size.

use std::time::Duration;

use super::failure::Stage;
use super::request::MapRequest;
use super::{Device, Krbd, POLL};
use crate::deadline::Deadline;
use crate::error::{Details, Error, ErrorKind, Result};
use crate::fsid::Fsid;
use crate::name::ImageId;

/// Which image it is, whatever it is called: names can change, and another cluster can have the same.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ImageIdentity {
    /// The cluster.
    pub fsid: Fsid,
    /// The image's pool, by its id: image ids are unique within a pool.
    pub pool_id: u64,
    /// The image's id.
    pub image_id: ImageId,
    /// The snapshot's id; `None` is the image itself.
    pub snapshot_id: Option<u64>,
}

impl ImageIdentity {
    /// Whether `device` maps this image.
    pub fn is_mapped_as(&self, device: &Device) -> bool {
        device.fsid == Some(self.fsid)
            && device.pool_id == Some(self.pool_id)
            && device.image_id.as_ref() == Some(&self.image_id)
            && device.snapshot_id == Some(self.snapshot_id.unwrap_or(Device::NO_SNAPSHOT))
    }
}

impl Krbd {
    /// The mapping of this very image, by its identity and not by its name, if there is one with the options of the
    /// request; else maps it.
    ///
    /// Two callers at the same time can both find none, and map it twice.
    ///
    /// # Errors
    ///
    /// `OptionsDiffer`: it is mapped, with other options; the details say which. Otherwise as [`map`](Self::map).
    pub fn map_or_get(&self, request: &MapRequest, identity: &ImageIdentity) -> Result<Device> {
        let deadline = Deadline::after(request.deadline);
        let mapped: Vec<_> = self.list()?.into_iter().filter(|device| identity.is_mapped_as(device)).collect();
        let differences = |device: &Device| device.config.as_ref().map(|c| c.options().differences(&request.options));
        if let Some(device) = mapped.iter().find(|device| differences(device).is_some_and(|d| d.is_empty())) {
            self.settle_node(device, request.node, deadline)?;
            return Ok(device.clone());
        }
        let Some(other) = mapped.first() else { return self.map(request) };
        let error = Error::new(ErrorKind::OptionsDiffer, "map image").with_object(other).at(Stage::Preflight);
        Err(match differences(other) {
            Some(differences) => error.with_details(Details::Options(differences)),
            None => error.with_hint("what it was mapped with cannot be read by this process"),
        })
    }

    /// Waits until the size that the kernel shows for `device` is one that `is_reached` accepts, and returns it. The
    /// kernel follows a resize of the image when the image's header tells it; snapshots and read-only mappings are told
    /// nothing.
    ///
    /// # Errors
    ///
    /// `NotMapped`, `Changed`: the mapping went meanwhile. `TimedOut`: the deadline passed.
    pub fn wait_for_size(&self, device: &Device, deadline: Duration, is_reached: impl Fn(u64) -> bool) -> Result<u64> {
        const OPERATION: &str = "wait for device size";
        let deadline = Deadline::after(Some(deadline));
        let failed = |kind| Error::new(kind, OPERATION).with_object(device).at(Stage::Wait);
        loop {
            let now = self.same(device)?.ok_or_else(|| failed(ErrorKind::NotMapped))?;
            if is_reached(now.size) {
                return Ok(now.size);
            }
            if deadline.is_over() {
                return Err(failed(ErrorKind::TimedOut).with_hint(format!("it has {} bytes", now.size)));
            }
            std::thread::sleep(POLL);
        }
    }
}
