//! Changing features: a plan is carried out step by step.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use super::Image;
use crate::error::{Details, Error, ErrorKind, Result};
use crate::feature::{Cascade, FeatureChange, FeaturePlan, FeatureStep, Features};
use crate::ffi::callback::Progress;

/// A step of a plan that has been carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
    pub fn enable_features(&self, features: Features, cascade: Cascade) -> Result<FeaturePlan> {
        let plan = FeaturePlan::enable(self.features()?, features, cascade).map_err(|error| self.name(error))?;
        self.apply(&plan, |_| ())?;
        Ok(plan)
    }

    /// Carries out a plan; `report` is told of each step that is done. The deadline holds for each step.
    ///
    /// A client that has the image open hands its lock over for the time of a change. One that does not (mapped or opened
    /// `exclusive`, locked by hand, or dead) makes the change fail.
    ///
    /// # Errors
    ///
    /// `ReadOnly` on a handle that is open read-only; `LockHeld` with the owners where one does not let go, also when
    /// the deadline passed over it: the change may then still take effect once the lock is free. Steps reported before
    /// are done.
    pub fn apply(&self, plan: &FeaturePlan, mut report: impl FnMut(&StepReport)) -> Result<()> {
        for &step in plan.steps() {
            let started = Instant::now();
            self.apply_step(step)?;
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
        let (bits, enable) = (step.features.bits(), step.change == FeatureChange::Enable);
        let operation = match step.change {
            FeatureChange::Enable => "enable features of image",
            FeatureChange::Disable => "disable features of image",
        };
        self.call(operation, move |image| image.update_features(bits, enable))
            .map_err(|error| self.explain_refusal(operation, error))
    }

    /// Rebuilds the object map, which librbd flags as invalid when the feature is enabled on an image that has data.
    /// `progress` is told how many objects of how many are done, and may stop it. It takes as long as it takes: no
    /// deadline but that closure's.
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
        rebuilt.map_err(|errno| connection.error(REBUILD, &self.label, errno))
    }

    /// Finds out whether it is another's lock that a change failed on.
    fn explain_refusal(&self, operation: &'static str, error: Error) -> Error {
        let refused = matches!(error.kind(), ErrorKind::ReadOnly | ErrorKind::Busy | ErrorKind::TimedOut);
        if self.read_only || !refused {
            return error;
        }
        // Automatic locks and those taken by hand are on the same object; a dead cluster tells of neither.
        let quick = self.with_deadline(Duration::from_secs(5));
        let own = self.pool.cluster().instance_id();
        let lockers = quick.lockers().unwrap_or_default();
        let others: Vec<_> =
            lockers.iter().filter(|locker| crate::watcher::parse_client_id(&locker.client).ok() != Some(own)).collect();
        if others.is_empty() {
            return error;
        }
        let owners = others
            .into_iter()
            .map(|locker| crate::LockOwner::new(crate::LockMode::Exclusive, locker.address.to_string()))
            .collect();
        self.error(ErrorKind::LockHeld, operation)
            .with_details(Details::LockOwners(owners))
            .with_hint("it does not give the lock up: end that client, or break the lock if it is dead")
            .with_source(error)
    }

    /// A plan knows the features only: `disable exclusive-lock of kube/pvc-1`.
    fn name(&self, error: Error) -> Error {
        let object = format!("{} of {}", error.object().unwrap_or("features"), self.label);
        error.with_object(object)
    }
}
