//! Unmap, and say who is in the way.

use super::cause::{Explanation, Support};
use super::kernel_log::KernelLog;
use crate::error::{Details, Error, ErrorKind, Result};
use crate::holder::Holders;
use crate::krbd::{Device, Krbd, Stage, Target, UnmapOptions, Unmapped};

/// Unmaps devices of this host. It needs no cluster.
#[derive(Debug, Clone)]
pub struct Detach {
    krbd: Krbd,
}

impl Detach {
    /// Of this driver.
    pub fn new(krbd: &Krbd) -> Self {
        Self { krbd: krbd.clone() }
    }

    /// Unmaps as [`Krbd::unmap`] does; where that fails, looks why.
    ///
    /// # Errors
    ///
    /// Those of [`Krbd::unmap`]. `Busy` has the holders in its details ([`Details::Holders`]), as far as they could be
    /// seen within the search's own five seconds, and never by opening the device. For another errno of the kernel's
    /// the details have an [`Explanation`] where something was found.
    pub fn unmap(&self, target: impl Into<Target>, options: &UnmapOptions) -> Result<Vec<Unmapped>> {
        let target = target.into();
        // The device may have left sysfs when it is time to look who holds it.
        let meant = self.krbd.find(target.clone())?;
        let log = KernelLog::from_now();
        self.krbd.unmap(target, options).map_err(|error| explain(error, &meant, log))
    }
}

fn explain(error: Error, meant: &[Device], log: KernelLog) -> Error {
    match (error.kind(), error.details()) {
        (ErrorKind::Busy, &Details::Attempts(attempts)) => match busy_device(&error, meant).map(holders) {
            Some(Ok(holders)) => error.with_details(Details::Holders { attempts, holders: Box::new(holders) }),
            Some(Err(_)) | None => error,
        },
        (_, Details::None) if error.stage() == Some(Stage::Write) && error.errno().is_some() => {
            let mut explanation = Explanation { causes: Vec::new(), kernel_log: log.lines() };
            if error.errno() == Some(libc::EPERM) {
                explanation.add(
                    Support::Likely,
                    "this process has no CAP_SYS_ADMIN in the initial user namespace",
                    "",
                    "unmap as root, outside of containers with a user namespace",
                );
            }
            if explanation.causes.is_empty() && explanation.kernel_log.is_empty() {
                return error;
            }
            error.with_details(Details::Explanation(Box::new(explanation)))
        }
        _ => error,
    }
}

/// The one that the error names, where several were meant.
fn busy_device<'a>(error: &Error, meant: &'a [Device]) -> Option<&'a Device> {
    match meant {
        [device] => Some(device),
        _ => meant.iter().find(|device| error.object() == Some(device.to_string().as_str())),
    }
}

fn holders(device: &Device) -> Result<Holders> {
    Holders::of(device.number).run()
}
