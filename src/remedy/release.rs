//! Carrying out remedies on this host.

use std::thread;
use std::time::{Duration, Instant};

use super::outcome::{Released, Step};
use super::pass::{Level, Pass};
use crate::DeviceNumber;
use crate::deadline::Deadline;
use crate::error::{Error, Result};
use crate::holder::Holders;
use crate::krbd::{Device, Krbd};

/// For so long after the last success it is tried again: whenever a device changes, udev has it open for a moment.
const PATIENCE: Duration = Duration::from_secs(2);
const POLL: Duration = Duration::from_millis(20);
/// A process whose files cannot be read at all takes the whole time of a search.
const SEARCH: Duration = Duration::from_secs(5);

/// What [`Release`] may do.
#[derive(Debug, Clone)]
#[must_use]
pub struct Policy {
    pub(super) lossy: bool,
    force: bool,
    deadline: Duration,
}

impl Policy {
    /// What is safe, and nothing else, for at most 60 seconds.
    pub fn new() -> Self {
        Self { lossy: false, force: false, deadline: Duration::from_secs(60) }
    }

    /// Also unmount lazily what is busy. Whoever has files open there keeps them, and the device, and sees nothing else
    /// of the file system any more.
    pub fn allow_lossy(self) -> Self {
        Self { lossy: true, ..self }
    }

    /// If the device is still busy in the end, unmap it by force
    /// ([`UnmapOptions::force`](crate::krbd::UnmapOptions::force)): what was not written back is lost, and what still
    /// holds the device stays and fails.
    pub fn force(self) -> Self {
        Self { force: true, ..self }
    }

    /// How long the whole release may take; 60 seconds where it is not set.
    pub fn deadline(self, deadline: Duration) -> Self {
        Self { deadline, ..self }
    }
}

impl Default for Policy {
    fn default() -> Self {
        Self::new()
    }
}

/// Frees devices of this host: unmounts in every mount namespace, ends swap, closes stacked devices, unmaps.
///
/// It does what [`remedies`](super::remedies) lists for the library, in that order, as far as the [`Policy`] allows.
/// Right before each act the target is compared with what was found: the mount by its number, a stacked device by its
/// UUID or backing file, a mapping by its identity; what is another by then is not touched. Afterwards the device is
/// looked at anew, as long as something succeeds, and for two seconds more.
///
/// What the kernel does not give back before the deadline, such as an unmount that waits for a silent cluster, goes on
/// without its caller, on a thread that keeps the process from ending until then.
///
/// It takes root in the host's PID namespace: CAP_SYS_ADMIN, CAP_SYS_CHROOT and CAP_SYS_PTRACE.
///
/// ```no_run
/// use rbd::krbd::Krbd;
/// use rbd::remedy::{Policy, Release};
///
/// # fn main() -> rbd::Result<()> {
/// if let Some(device) = Krbd::new().device(0)? {
///     let released = Release::new(Policy::new()).run(&device)?;
///     println!("{released}");
///     assert!(released.is_free());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Release {
    policy: Policy,
    krbd: Krbd,
}

impl Release {
    /// By this policy.
    pub fn new(policy: Policy) -> Self {
        Self { policy, krbd: Krbd::new() }
    }

    /// Unmaps by this driver, where sysfs is not at `/sys`.
    #[must_use]
    pub fn krbd(self, krbd: &Krbd) -> Self {
        Self { krbd: krbd.clone(), ..self }
    }

    /// Frees a mapped device and unmaps it. What did not succeed is no error: it is in the report, with who still holds
    /// the device, if the deadline left time to look.
    ///
    /// # Errors
    ///
    /// `Changed`: the id is another mapping's by now, and nothing was done. Otherwise those of
    /// [`Search::run`](crate::holder::Search::run) and [`Krbd::find`], before anything was done.
    pub fn run(&self, device: &Device) -> Result<Released> {
        self.release(device.number, Some(device))
    }

    /// Frees any block device, or what is left of one, and unmaps nothing.
    ///
    /// # Errors
    ///
    /// Those of [`Search::run`](crate::holder::Search::run), before anything was done.
    pub fn free(&self, device: DeviceNumber) -> Result<Released> {
        self.release(device, None)
    }

    fn release(&self, number: DeviceNumber, device: Option<&Device>) -> Result<Released> {
        let deadline = Deadline::after(Some(self.policy.deadline));
        let mut level = Level::Safe;
        let mut steps: Vec<Step> = Vec::new();
        let mut patience = Instant::now() + PATIENCE;
        loop {
            let (holders, is_mapped) = match self.look(number, device, deadline) {
                Ok(found) => found,
                Err(error) if steps.is_empty() => return Err(error),
                // What was done is not lost with the last look.
                Err(_) => return Ok(Released { steps, left: None, is_mapped: device.is_some() }),
            };
            if holders.is_empty() && !is_mapped {
                steps.retain(|step| step.outcome.is_success());
                return Ok(Released { steps, left: Some(holders), is_mapped });
            }
            let pass = Pass { krbd: &self.krbd, policy: &self.policy, level, holders: &holders, deadline };
            let latest = pass.run(device.filter(|_| is_mapped));
            // What failed before was tried again, or is there no more.
            steps.retain(|step| step.outcome.is_success());
            if latest.iter().any(|step| step.outcome.is_success()) {
                patience = Instant::now() + PATIENCE;
            }
            steps.extend(latest);
            if deadline.is_over() {
                continue;
            }
            if Instant::now() < patience {
                thread::sleep(POLL);
            } else if let Some(next) = self.next(level) {
                level = next;
            } else {
                return Ok(Released { steps, left: Some(holders), is_mapped });
            }
        }
    }

    fn next(&self, level: Level) -> Option<Level> {
        let allowed = [(Level::Lossy, self.policy.lossy), (Level::Force, self.policy.force)];
        allowed.into_iter().find(|(next, is_allowed)| *next > level && *is_allowed).map(|(next, _)| next)
    }

    /// Who holds the device, and whether the mapping is there. It is the same before and after the search, so that the
    /// holders are its holders.
    fn look(&self, number: DeviceNumber, device: Option<&Device>, deadline: Deadline) -> Result<(Holders, bool)> {
        let is_mapped = || match device {
            Some(device) => Ok::<_, Error>(!self.krbd.find(device)?.is_empty()),
            None => Ok(false),
        };
        is_mapped()?;
        let holders = Holders::of(number).deadline(deadline.left().unwrap_or(SEARCH).min(SEARCH)).run()?;
        Ok((holders, is_mapped()?))
    }
}
