//! Who uses each image of a pool.

use std::net::IpAddr;

use super::join::{Found, Known, join};
use super::survey::{in_pool, is_of, seen};
use super::{Client, Part, Survey, Unseen};
use crate::deadline::Deadline;
use crate::error::{ErrorKind, Result};
use crate::image::{ImageEntry, Scan, ScannedImage, lockers_of_header};
use crate::krbd::Device;
use crate::rados::Pool;

/// An image of a pool, and who uses it.
#[derive(Debug)]
#[non_exhaustive]
pub struct ImageUsage {
    /// The image.
    pub image: ImageEntry,
    /// Who uses it; `NotFound` where it was removed after it had been listed.
    pub clients: Result<Vec<Client>>,
}

/// The images of a pool with their users, as the answers come, in the order of [`Pool::images`].
///
/// It has in memory what is the same for all, this host's mappings, and a few images at a time: the pool may have any
/// number.
#[derive(Debug)]
pub struct PoolUsage {
    scan: Scan,
    pool: Pool,
    known: Known,
    devices: Vec<Device>,
    locks: bool,
    unseen: Vec<Unseen>,
}

impl Survey {
    /// Who uses each image of a pool and namespace: those that watch it, and this host's mappings. Locks are asked for
    /// only [`with_locks`](PoolUsage::with_locks); holders are not looked for, and nobody is asked for a sign of life.
    ///
    /// The pool's deadline is that of the scan as a whole.
    ///
    /// # Errors
    ///
    /// Of the items: as [`Pool::scan_watchers`].
    pub fn of_pool(&self, pool: &Pool) -> PoolUsage {
        let deadline = Deadline::after(pool.deadline);
        let mut unseen = Vec::new();
        // librbd's `RBD_MIRRORING`: the object is there once mirroring has been enabled.
        let unmirrored = pool.until(deadline).stat("rbd_mirroring").is_err_and(|e| e.kind() == ErrorKind::NotFound);
        let known = self.known(deadline, !unmirrored, &mut unseen);
        let mut devices = seen(self.all_devices(), Part::Mappings, &mut unseen);
        devices.retain(|device| in_pool(device, pool));
        PoolUsage {
            scan: pool.until(deadline).scan_watchers(),
            pool: pool.clone(),
            known,
            devices,
            locks: false,
            unseen,
        }
    }
}

impl PoolUsage {
    /// Asks for the locks of each image too: one more question for each.
    #[must_use]
    pub fn with_locks(self) -> Self {
        Self { locks: true, ..self }
    }

    /// What could not be found out, for any image.
    pub fn unseen(&self) -> &[Unseen] {
        &self.unseen
    }

    /// Only the images that a client at this address uses. Errors are among them: what they hide is not known.
    pub fn of_node(self, ip: IpAddr) -> impl Iterator<Item = Result<ImageUsage>> {
        self.filter(move |usage| match usage {
            Ok(ImageUsage { clients: Ok(clients), .. }) => clients.iter().any(|client| client.is_at(ip)),
            _ => true,
        })
    }

    fn clients(&self, scanned: &mut ScannedImage) -> Result<Vec<Client>> {
        let watchers = std::mem::replace(&mut scanned.watchers, Ok(Vec::new()))?;
        let image = &scanned.image;
        let lockers = if self.locks {
            let left =
                self.scan.left().map_or_else(|| self.pool.without_deadline(), |left| self.pool.with_deadline(left));
            left.object("list locks of image", image.header_object()?.as_str(), |io, header| {
                lockers_of_header(io, header)
            })?
            .1
        } else {
            Vec::new()
        };
        let devices = self.devices.iter().filter(|device| is_of(device, image.id.as_ref(), image.name.as_bytes()));
        Ok(join(Found { watchers, lockers, devices: devices.cloned().collect(), answers: None }, &self.known))
    }
}

impl Iterator for PoolUsage {
    type Item = Result<ImageUsage>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.scan.next()?.map(|mut scanned| {
            let clients = self.clients(&mut scanned);
            ImageUsage { image: scanned.image, clients }
        }))
    }
}
