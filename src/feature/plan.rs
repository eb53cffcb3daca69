//! What changing features takes, worked out before anything is changed.

use std::fmt;

use super::Features;
use crate::error::{Details, Error, ErrorKind, Result};

/// Whether a plan may change features that were not asked for, where those asked for depend on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cascade {
    /// It is an error that names them.
    No,
    /// They are changed too; [`FeaturePlan::implied`] names them.
    Yes,
}

/// What a step of a plan does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "lowercase"))]
pub enum FeatureChange {
    /// Enable the features.
    Enable,
    /// Disable the features.
    Disable,
}

/// One call of `rbd_update_features`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct FeatureStep {
    /// What is done.
    pub change: FeatureChange,
    /// To which features.
    pub features: Features,
}

/// The steps that change an image's features, in the order that librbd wants.
///
/// `object-map` and `fast-diff` go together and need `exclusive-lock`; `journaling` needs `exclusive-lock`. Features
/// that are already as wanted are no step: librbd would refuse them.
///
/// ```
/// use rbd::feature::{Cascade, FeaturePlan};
/// use rbd::Features;
///
/// let plan = FeaturePlan::disable(Features::from_bits_retain(0x3d), Features::EXCLUSIVE_LOCK, Cascade::Yes)?;
/// assert_eq!(plan.to_string(), "disable object-map, fast-diff (implied); disable exclusive-lock");
/// # Ok::<(), rbd::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct FeaturePlan {
    change: FeatureChange,
    steps: Vec<FeatureStep>,
    already: Features,
    implied: Features,
}

impl FeaturePlan {
    /// The plan that disables the features `wanted` on an image that has the features `current`.
    ///
    /// # Errors
    ///
    /// `FeatureImmutable` if some of them can never be disabled; `FeatureDependency` if others must be disabled with
    /// them and `cascade` does not allow that. The details name those in the way.
    pub fn disable(current: Features, wanted: Features, cascade: Cascade) -> Result<Self> {
        let asked = wanted.intersection(current);
        check_changeable(FeatureChange::Disable, asked, Features::MUTABLE.union(Features::DISABLE_ONLY))?;
        let mut needed = asked;
        if asked.contains(Features::EXCLUSIVE_LOCK) {
            needed |= Features::MAPS | Features::JOURNALING;
        }
        if asked.intersects(Features::MAPS) {
            needed |= Features::MAPS;
        }
        // What cannot come back goes last: an earlier step may fail.
        let order = [Features::MAPS, Features::JOURNALING, Features::EXCLUSIVE_LOCK, Features::DEEP_FLATTEN];
        let already = wanted.difference(current);
        Self::new(FeatureChange::Disable, asked, needed.intersection(current), already, &order, cascade)
    }

    /// The plan that enables the features `wanted` on an image that has the features `current`.
    ///
    /// # Errors
    ///
    /// `FeatureImmutable` if some of them can never be enabled; `FeatureDependency` if others must be enabled with
    /// them and `cascade` does not allow that. The details name those in the way.
    pub fn enable(current: Features, wanted: Features, cascade: Cascade) -> Result<Self> {
        let asked = wanted.difference(current);
        check_changeable(FeatureChange::Enable, asked, Features::MUTABLE)?;
        let mut needed = asked;
        if asked.intersects(Features::MAPS) {
            needed |= Features::MAPS | Features::EXCLUSIVE_LOCK;
        }
        if asked.contains(Features::JOURNALING) {
            needed |= Features::EXCLUSIVE_LOCK;
        }
        let order = [Features::EXCLUSIVE_LOCK, Features::MAPS, Features::JOURNALING];
        let already = wanted.intersection(current);
        Self::new(FeatureChange::Enable, asked, needed.difference(current), already, &order, cascade)
    }

    /// The plan that makes an image mappable by a kernel that supports the features in `kernel_mask`
    /// (`/sys/bus/rbd/supported_features`): it disables all that the kernel lacks, and what depends on that.
    ///
    /// # Errors
    ///
    /// `FeatureImmutable` if the image has features that the kernel lacks and that can never be disabled.
    pub fn mappable_by(current: Features, kernel_mask: Features) -> Result<Self> {
        Self::disable(current, current.difference(kernel_mask), Cascade::Yes)
    }

    fn new(
        change: FeatureChange,
        asked: Features,
        needed: Features,
        already: Features,
        order: &[Features],
        cascade: Cascade,
    ) -> Result<Self> {
        let implied = needed.difference(asked);
        if cascade == Cascade::No && !implied.is_empty() {
            return Err(Error::new(ErrorKind::FeatureDependency, change.verb())
                .with_object(asked)
                .with_details(Details::Features(implied))
                .with_hint("a cascade changes them too"));
        }
        let steps = order.iter().map(|&group| needed.intersection(group)).filter(|features| !features.is_empty());
        let steps = steps.map(|features| FeatureStep { change, features }).collect();
        Ok(Self { change, steps, already, implied })
    }

    /// The steps, in order.
    pub fn steps(&self) -> &[FeatureStep] {
        &self.steps
    }

    /// Those asked for that are already as wanted.
    pub fn already(&self) -> Features {
        self.already
    }

    /// Those that are changed without having been asked for.
    pub fn implied(&self) -> Features {
        self.implied
    }

    /// Those that are disabled and can never be enabled again.
    pub fn irreversible(&self) -> Features {
        match self.change {
            FeatureChange::Enable => Features::empty(),
            FeatureChange::Disable => self.changed().intersection(Features::DISABLE_ONLY),
        }
    }

    /// Whether the object map must be rebuilt afterwards: librbd flags a newly enabled one as invalid.
    #[doc(alias = "rbd_rebuild_object_map")]
    pub fn needs_rebuild(&self) -> bool {
        self.change == FeatureChange::Enable && self.changed().intersects(Features::MAPS)
    }

    fn changed(&self) -> Features {
        self.steps.iter().map(|step| step.features).collect()
    }
}

fn check_changeable(change: FeatureChange, asked: Features, changeable: Features) -> Result<()> {
    let fixed = asked.difference(changeable);
    if fixed.is_empty() {
        return Ok(());
    }
    Err(Error::new(ErrorKind::FeatureImmutable, change.verb())
        .with_object(asked)
        .with_details(Details::Features(fixed)))
}

impl FeatureChange {
    fn verb(self) -> &'static str {
        match self {
            Self::Enable => "enable",
            Self::Disable => "disable",
        }
    }
}

impl fmt::Display for FeatureStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.change.verb(), self.features)
    }
}

impl fmt::Display for FeaturePlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.steps.is_empty() {
            f.write_str("nothing to change")?;
        }
        for (n, step) in self.steps.iter().enumerate() {
            let separator = if n == 0 { "" } else { "; " };
            let implied = if self.implied.contains(step.features) { " (implied)" } else { "" };
            let for_good = if self.irreversible().intersects(step.features) { " (for good)" } else { "" };
            write!(f, "{separator}{step}{implied}{for_good}")?;
        }
        if self.needs_rebuild() {
            f.write_str("; then rebuild the object map")?;
        }
        Ok(())
    }
}
