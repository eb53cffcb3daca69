//! The device node of a mapping, which somebody else makes.

use std::fs;
use std::io;
use std::os::linux::fs::MetadataExt;
use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;
use std::time::Duration;

use super::failure::Stage;
use super::request::NodePolicy;
use super::{Device, Krbd, POLL, sys, sysfs};
use crate::deadline::Deadline;
use crate::device_number::DeviceNumber;
use crate::error::{Details, Error, ErrorKind, Result};

/// What is at a device's path.
enum Found {
    Node,
    Nothing,
    /// Something that will not become the node by waiting.
    Other(String),
    /// Perhaps the node of what had this id before, which udev is about to replace.
    OtherNumber(String),
}

impl Krbd {
    /// Waits at most `deadline` until the device's node is there, with the right number.
    ///
    /// # Errors
    ///
    /// `NodeUnusable`: it is not, or something else lies there, such as a regular file.
    pub fn wait_for_node(&self, device: &Device, deadline: Duration) -> Result<()> {
        self.settle_node(device, NodePolicy::Require(deadline), Deadline::after(None))
    }

    pub(super) fn settle_node(&self, device: &Device, policy: NodePolicy, deadline: Deadline) -> Result<()> {
        let (bound, create) = match policy {
            NodePolicy::Ignore => return Ok(()),
            NodePolicy::Require(bound) => (bound, false),
            NodePolicy::Create(bound) => (bound, true),
        };
        let bound = Deadline::after(Some(deadline.left().map_or(bound, |left| left.min(bound))));
        loop {
            let found = look(device).map_err(|error| unusable(device, error.to_string()))?;
            match found {
                Found::Node => return Ok(()),
                Found::Other(what) => return Err(unusable(device, what)),
                Found::Nothing if bound.is_over() && create => {
                    let made = sys::make_block_node(&device.node, device.number);
                    match made {
                        Ok(()) => return Ok(()),
                        // udev was quicker after all.
                        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                        Err(error) => return Err(unusable(device, error.to_string())),
                    }
                }
                Found::Nothing if bound.is_over() => {
                    return Err(unusable(device, "it is not there; is this the host's /dev?".into()));
                }
                Found::OtherNumber(what) if bound.is_over() => return Err(unusable(device, what)),
                Found::Nothing | Found::OtherNumber(_) => std::thread::sleep(POLL),
            }
        }
    }

    /// udev's link to the device (`/dev/rbd/POOL/[NAMESPACE/]IMAGE[@SNAPSHOT]`), if it is there and leads to it.
    ///
    /// Where one image is mapped more than once, it leads to one of the devices only.
    pub fn link(&self, device: &Device) -> Option<PathBuf> {
        let mut link = self.sysfs.dev.join("rbd").join(device.pool.to_str()?);
        if let Some(namespace) = &device.namespace {
            link.push(namespace.to_str()?);
        }
        let image = device.image.to_str()?;
        link.push(match &device.snapshot {
            Some(snapshot) => format!("{image}@{}", snapshot.to_str()?),
            None => image.to_owned(),
        });
        let target = fs::read_link(&link).ok()?;
        (sysfs::id_of_path(&target) == Some(device.id)).then_some(link)
    }

    /// A link that does not come is no failure: there may be no udev.
    pub(super) fn wait_for_link(&self, device: &Device, policy: NodePolicy, deadline: Deadline) {
        let bound = match policy {
            NodePolicy::Require(bound) | NodePolicy::Create(bound) => bound,
            NodePolicy::Ignore => Duration::ZERO,
        };
        let bound = Deadline::after(Some(deadline.left().map_or(bound, |left| left.min(bound))));
        while self.link(device).is_none() && !bound.is_over() {
            std::thread::sleep(POLL);
        }
    }
}

/// Never opens the node: an open device cannot be unmapped.
fn look(device: &Device) -> io::Result<Found> {
    let metadata = match fs::symlink_metadata(&device.node) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Nothing),
        metadata => metadata?,
    };
    if !metadata.file_type().is_block_device() {
        return Ok(Found::Other("what is there is not a block device".into()));
    }
    let number = DeviceNumber::from_dev(metadata.st_rdev());
    if number == device.number {
        return Ok(Found::Node);
    }
    Ok(Found::OtherNumber(format!("it is the node of {number}, not of {}", device.number)))
}

fn unusable(device: &Device, why: String) -> Error {
    Error::new(ErrorKind::NodeUnusable, "use device node")
        .with_object(device.node.display())
        .with_details(Details::Devices(vec![device.clone()]))
        .with_hint(why)
        .at(Stage::Node)
}
