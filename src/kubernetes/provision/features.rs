//! The features of a new image that a kernel can map.

use crate::error::Result;
use crate::feature::{FeaturePlan, Features};

/// Of the features that an image would get, those that a kernel's driver supports, without those that need one that it
/// lacks. `kernel_mask` is what the node shows in `/sys/bus/rbd/supported_features`.
///
/// ```
/// use rbd::Features;
/// use rbd::kubernetes::provision::mappable_features;
///
/// // A kernel before 5.3 knows no object map.
/// let usual = "layering,exclusive-lock,object-map,fast-diff,deep-flatten".parse()?;
/// let mask = Features::parse_kernel_mask("0x1a7")?;
/// assert_eq!(mappable_features(usual, mask)?, "layering,exclusive-lock,deep-flatten".parse()?);
/// # Ok::<(), rbd::Error>(())
/// ```
///
/// # Errors
///
/// `FeatureImmutable` where the kernel lacks one that an image cannot do without once it has it, such as `layering`.
pub fn mappable_features(wanted: Features, kernel_mask: Features) -> Result<Features> {
    let plan = FeaturePlan::mappable_by(wanted, kernel_mask)?;
    let unmappable: Features = plan.steps().iter().map(|step| step.features).collect();
    Ok(wanted.difference(unmappable))
}
