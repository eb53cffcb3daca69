//! Whether an image can be mapped in the way that a request says, before the kernel is asked.

use super::with_cluster::Attach;
use crate::deadline::Deadline;
use crate::error::{Details, Error, ErrorKind, Result};
use crate::feature::Features;
use crate::image::{Image, ImageParent, MirrorState};
use crate::krbd::{ImageIdentity, MapRequest, Stage};
use crate::name::{ImageId, ImageSpec};

/// What was found out about the image.
pub(super) struct Facts {
    /// The image, open read-only.
    pub(super) image: Image,
    pub(super) features: Features,
    /// `None` for format 1.
    pub(super) identity: Option<ImageIdentity>,
    /// The kernel's features, where it tells them.
    pub(super) kernel: Option<Features>,
}

/// `RBD_MAX_PARENT_CHAIN_LEN` in `drivers/block/rbd.c`.
const LONGEST_CHAIN: usize = 16;

/// The options that are for images with `exclusive-lock` only.
const NEED_LOCK: [&str; 2] = ["exclusive", "lock_on_read"];

impl Attach {
    pub(super) fn check(&self, request: &MapRequest, deadline: Deadline) -> Result<Facts> {
        let spec = request.spec();
        spec.check_for_kernel()?;
        let image = self.cluster.until(deadline).open_read_only(spec)?;
        let info = image.until(deadline).info()?;
        let kernel = self.krbd.supported_features()?;
        if let Some(mask) = kernel {
            check_features(
                spec,
                info.features,
                mask,
                request.map_options().is_read_only() || spec.snapshot().is_some(),
            )?;
        }
        check_options(request, info.features)?;
        let writes = !request.map_options().is_read_only() && spec.snapshot().is_none();
        let demoted = info.mirroring.as_ref().is_some_and(|m| m.state == MirrorState::Enabled && !m.primary);
        if writes && demoted {
            return Err(refused(spec, ErrorKind::ReadOnly)
                .with_hint("it is mirrored and not primary here: promote it, or map it read-only"));
        }
        self.check_parents(spec, info.parent.as_ref(), deadline)?;
        let identity = match &info.id {
            Some(id) => Some(self.identity(&image.until(deadline), id)?),
            None => None,
        };
        Ok(Facts { features: info.features, identity, kernel, image })
    }

    fn identity(&self, image: &Image, id: &ImageId) -> Result<ImageIdentity> {
        Ok(ImageIdentity {
            fsid: self.cluster.fsid()?,
            pool_id: image.pool().id().unsigned_abs(),
            image_id: id.clone(),
            snapshot_id: image.snapshot_id()?,
        })
    }

    fn check_parents(&self, spec: &ImageSpec, first: Option<&ImageParent>, deadline: Deadline) -> Result<()> {
        let mut parent = first.cloned();
        for _ in 0..LONGEST_CHAIN {
            let Some(next) = parent else { return Ok(()) };
            parent = match self.open_parent(&next, deadline) {
                Ok(image) => image.until(deadline).info()?.parent,
                // The user may be kept from the parent's pool; then it is the kernel's word that counts.
                Err(_) => return Ok(()),
            };
        }
        match parent {
            None => Ok(()),
            Some(_) => Err(refused(spec, ErrorKind::InvalidInput)
                .with_hint(format!("it has more than {LONGEST_CHAIN} parents, one above the other: flatten it"))),
        }
    }

    fn open_parent(&self, parent: &ImageParent, deadline: Deadline) -> Result<Image> {
        let pool = self.cluster.until(deadline).pool(parent.pool.as_str())?;
        let namespace = match parent.namespace.as_str() {
            "" => None,
            name => Some(name.parse()?),
        };
        pool.in_namespace(namespace.as_ref())?
            .until(deadline)
            .open_read_only_by_id(&ImageId::new(parent.image_id.as_str())?)
    }
}

fn check_features(spec: &ImageSpec, features: Features, mask: Features, read_only: bool) -> Result<()> {
    // Who only reads may ignore features that matter to writers (`include/rbd/features.h`).
    let matter = if read_only { features.intersection(Features::INCOMPATIBLE) } else { features };
    let lacking = matter.unsupported_by(mask);
    if lacking.is_empty() {
        return Ok(());
    }
    let hint = if lacking.permanent.is_empty() {
        format!("disable them first: {}", lacking.disable)
    } else {
        format!("no way to disable {}: this kernel cannot map the image so", lacking.permanent)
    };
    let lacking = lacking.disable.union(lacking.permanent);
    Err(refused(spec, ErrorKind::FeatureMismatch).with_details(Details::Features(lacking)).with_hint(hint))
}

fn check_options(request: &MapRequest, features: Features) -> Result<()> {
    let options = request.map_options();
    let needs = NEED_LOCK.into_iter().find(|key| options.get(key).is_some());
    match needs {
        Some(option) if !features.contains(Features::EXCLUSIVE_LOCK) => {
            Err(refused(request.spec(), ErrorKind::OptionNeedsFeature)
                .with_details(Details::Features(Features::EXCLUSIVE_LOCK))
                .with_hint(format!(
                    "the option {option} is for images with that feature: enable it, or leave the option out"
                )))
        }
        _ => Ok(()),
    }
}

fn refused(spec: &ImageSpec, kind: ErrorKind) -> Error {
    Error::new(kind, "map image").with_object(spec).at(Stage::Preflight)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> ImageSpec {
        "kube/pvc-1".parse().unwrap()
    }

    /// Case B27.
    #[test]
    fn features_that_the_kernel_lacks_are_split_into_what_can_be_disabled_and_what_cannot() {
        let (features, mask) = (Features::from_bits_retain(0xbd), Features::from_bits_retain(0x7));
        let error = check_features(&spec(), features, mask, false).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::FeatureMismatch);
        assert_eq!(error.details(), &Details::Features(Features::from_bits_retain(0xb8)));
        assert!(error.hint().unwrap().contains("data-pool"), "{error}");
        check_features(&spec(), Features::from_bits_retain(0x3d), Features::from_bits_retain(0x1bf), false).unwrap();
    }

    #[test]
    fn who_only_reads_may_map_a_journaling_image() {
        let (journaling, mask) = (Features::from_bits_retain(0x7d), Features::from_bits_retain(0x1bf));
        check_features(&spec(), journaling, mask, true).unwrap();
        let error = check_features(&spec(), journaling, mask, false).unwrap_err();
        assert_eq!(error.details(), &Details::Features(Features::JOURNALING));
        assert_eq!(error.hint(), Some("disable them first: journaling"));
    }
}
