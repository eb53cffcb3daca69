//! Changing features: a plan is carried out step by step.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use super::Image;
use super::lock::lockers;
use crate::deadline::Deadline;
use crate::error::{Details, Error, ErrorKind, Result};
use crate::feature::{Cascade, FeatureChange, FeaturePlan, FeatureStep, Features};
use crate::ffi::callback::Progress;
use crate::lock::{LockMode, LockOwner, Locker};

/// How much of the time for a change is kept to see who was in the way, at most.
const LAST_LOOK: Duration = Duration::from_secs(1);

/// A step of a plan that has been carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct StepReport {
    /// The step.
    pub step: FeatureStep,
    /// How long it took.
    pub elapsed: Duration,
}

impl Image {
    /// Disables features: makes the plan and carries it out. [`FeaturePlan::disable`] makes the plan alone.
    ///
    /// # Errors
    ///
    /// Those of [`FeaturePlan::disable`], before anything is changed, and those of [`apply`](Self::apply).
    pub fn disable_features(&self, features: Features, cascade: Cascade) -> Result<FeaturePlan> {
        let plan = FeaturePlan::disable(self.features()?, features, cascade).map_err(|error| self.name(error))?;
        self.apply(&plan, |_| ())?;
        Ok(plan)
    }

    /// Enables features: makes the plan and carries it out. [`FeaturePlan::enable`] makes the plan alone.
    ///
    /// # Errors
    ///
    /// Those of [`FeaturePlan::enable`], before anything is changed, and those of [`apply`](Self::apply).
    pub fn enable_features(&self, features: Features, cascade: Cascade) -> Result<FeaturePlan> {
        let plan = FeaturePlan::enable(self.features()?, features, cascade).map_err(|error| self.name(error))?;
        self.apply(&plan, |_| ())?;
        Ok(plan)
    }

    /// Carries out a plan; `report` is told of each step that is done. The deadline holds for each step.
    ///
    /// A living client of librbd that has the image's lock carries out the change itself, or hands the lock over for as
    /// long as that takes. A kernel client that has mapped the image `exclusive`, a lock taken by hand and an owner
    /// that does not answer are in the way.
    ///
    /// # Errors
    ///
    /// `ReadOnly` on a handle that is open read-only; `LockHeld` with the owners where one does not let go, also when
    /// the time passed over it: the change may then still take effect once the lock is free. `TimedOut` where the
    /// cluster no longer answered; the hint names who had the lock before. Steps reported before are done.
    pub fn apply(&self, plan: &FeaturePlan, mut report: impl FnMut(&StepReport)) -> Result<()> {
        for &step in plan.steps() {
            let (started, deadline) = (Instant::now(), Deadline::after(self.deadline));
            // As wanted already where somebody else has just carried out the same plan.
            let current = self.features()?;
            let features = match step.change {
                FeatureChange::Enable => step.features.difference(current),
                FeatureChange::Disable => step.features.intersection(current),
            };
            if !features.is_empty() {
                self.until(deadline).apply_step(FeatureStep { features, ..step })?;
            }
            report(&StepReport { step, elapsed: started.elapsed() });
        }
        Ok(())
    }

    /// One change as librbd takes it: what it needs must be there already, and a feature that is as wanted already is
    /// `InvalidInput`, as is one that cannot be changed.
    ///
    /// # Errors
    ///
    /// Those of [`apply`](Self::apply).
    #[doc(alias = "rbd_update_features")]
    pub fn apply_step(&self, step: FeatureStep) -> Result<()> {
        let (operation, enable) = match step.change {
            FeatureChange::Enable => ("enable features of image", true),
            FeatureChange::Disable => ("disable features of image", false),
        };
        let deadline = Deadline::after(self.deadline);
        let before = self.other_lockers(operation)?;
        let mut change = self.until(deadline);
        // The rest is for the look at what was in the way.
        change.deadline = change.deadline.map(|left| left - LAST_LOOK.min(left / 4));
        let changed = change.call(operation, move |image| image.update_features(step.features.bits(), enable));
        changed.map_err(|error| {
            if before.is_empty() {
                return error;
            }
            match error.kind() {
                ErrorKind::ReadOnly | ErrorKind::Busy => {
                    lock_held(error, &before, "it keeps the lock: end that client, or break the lock if it is dead")
                }
                ErrorKind::TimedOut => match self.until(deadline).other_lockers(operation) {
                    Ok(lockers) if lockers.is_empty() => error,
                    Ok(lockers) => {
                        let hint = "it did not let go in time: the change may still take effect once it does";
                        lock_held(error, &lockers, hint)
                    }
                    Err(_) => {
                        let names: Vec<_> = before.iter().map(|locker| locker.address.to_string()).collect();
                        error.with_hint(format!(
                            "the cluster did not answer in time; before that the lock was held by {}",
                            names.join(", ")
                        ))
                    }
                },
                _ => error,
            }
        })
    }

    /// Who else has a lock that a change would need; nobody where this handle could change nothing anyway.
    fn other_lockers(&self, operation: &'static str) -> Result<Vec<Locker>> {
        let read_only = self.read_only;
        self.call_and_parse(operation, move |image| {
            if read_only || image.is_lock_owner()? { Ok(Vec::new()) } else { lockers(image) }
        })
    }

    /// The same image for what is left of the time.
    pub(crate) fn until(&self, deadline: Deadline) -> Self {
        Self { deadline: deadline.left(), ..self.clone() }
    }

    /// Rebuilds the object map, which librbd flags as invalid when the feature is enabled on an image that has data.
    /// `progress` is told how many objects of how many are done, and may stop it. It takes as long as it takes: no
    /// deadline but that closure's.
    ///
    /// `progress` runs on a thread that librbd needs: there, every call to a cluster, to close and to disconnect
    /// included, is `Busy` at once. It may drop handles: they are closed on another thread.
    ///
    /// # Errors
    ///
    /// `Cancelled` where `progress` stopped it; a panic in `progress` goes on here, after librbd has returned.
    #[doc(alias = "rbd_rebuild_object_map")]
    pub fn rebuild_object_map(&self, mut progress: impl FnMut(u64, u64) -> ControlFlow<()> + Send) -> Result<()> {
        const REBUILD: &str = "rebuild object map of image";
        let connection = &self.pool.connection;
        connection.check_usable(REBUILD, &self.label)?;
        let rebuilt = self.handle.rebuild_object_map(Progress::new(&mut progress));
        rebuilt.map_err(|errno| self.blame_handle(connection.error(REBUILD, &self.label, errno)))
    }

    /// A plan knows the features only: `disable exclusive-lock of kube/pvc-1`.
    fn name(&self, error: Error) -> Error {
        let object = format!("{} of {}", error.object().unwrap_or("features"), self.label);
        error.with_object(object)
    }
}

fn lock_held(error: Error, lockers: &[Locker], hint: &'static str) -> Error {
    let owner = |locker: &Locker| LockOwner::new(LockMode::Exclusive, locker.address.to_string());
    let owners = lockers.iter().map(owner).collect();
    error.with_kind(ErrorKind::LockHeld).with_details(Details::LockOwners(owners)).with_hint(hint)
}
