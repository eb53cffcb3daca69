//! Map with a cluster at hand.

use std::time::Duration;

use super::check::Facts;
use super::detach::Detach;
use super::explain::Explainer;
use super::kernel_log::KernelLog;
use crate::deadline::Deadline;
use crate::error::Result;
use crate::krbd::{Device, Krbd, MapOptions, MapRequest, Target, UnmapOptions, Unmapped};
use crate::name::ImageSpec;
use crate::rados::Cluster;

/// Maps and unmaps images of a cluster on this host.
#[derive(Debug, Clone)]
pub struct Attach {
    pub(super) cluster: Cluster,
    pub(super) krbd: Krbd,
    pub(super) default_options: bool,
}

impl Attach {
    /// The connection's user is the one who maps. The connection's deadline is that of a whole map.
    pub fn new(cluster: &Cluster, krbd: &Krbd) -> Self {
        Self { cluster: cluster.clone(), krbd: krbd.clone(), default_options: false }
    }

    /// Takes options that are not set from `rbd_default_map_options`, as it holds for the image, like the `rbd`
    /// program.
    #[must_use]
    pub fn use_default_map_options(self) -> Self {
        Self { default_options: true, ..self }
    }

    /// Fills in a request: monitors, user and key, and a pool where the spec names none. Nothing is checked yet, and
    /// what else a request can say may still be set.
    ///
    /// # Errors
    ///
    /// `NotFound` where the key of the connection's user is not in its configuration; what the cluster says.
    pub fn request(&self, spec: &ImageSpec, options: &MapOptions) -> Result<MapRequest> {
        self.fill(spec, options, Deadline::after(self.cluster.deadline))
    }

    /// Maps an image or a snapshot: [`request`](Self::request), then [`map_request`](Self::map_request).
    ///
    /// # Errors
    ///
    /// Those of both.
    pub fn map(&self, spec: &ImageSpec, options: &MapOptions) -> Result<Device> {
        let deadline = Deadline::after(self.cluster.deadline);
        let request = self.fill(spec, options, deadline)?;
        self.carry_out(request, deadline, |krbd, request, _| krbd.map(request))
    }

    /// The mapping of this very image on this host, by its id and its cluster's, or else a new one.
    ///
    /// # Errors
    ///
    /// `OptionsDiffer` where it is mapped with other options; otherwise as [`map`](Self::map).
    pub fn map_or_get(&self, spec: &ImageSpec, options: &MapOptions) -> Result<Device> {
        let deadline = Deadline::after(self.cluster.deadline);
        let request = self.fill(spec, options, deadline)?;
        self.carry_out(request, deadline, |krbd, request, facts| match &facts.identity {
            Some(identity) => krbd.map_or_get(request, identity),
            // Format 1 has no identity but its name.
            None => krbd.map(request),
        })
    }

    /// Maps what a request says, after a look at the image. The connection's deadline is that of all of it, and the
    /// request's that of the kernel's part.
    ///
    /// # Errors
    ///
    /// Before the kernel is touched: `NotFound`; `FeatureMismatch` with the features that the kernel lacks;
    /// `OptionNeedsFeature`; `ReadOnly` for a mirrored image that is not primary; `InvalidInput` for a chain of parents
    /// that is too long for the kernel.
    ///
    /// Afterwards those of [`Krbd::map`]; where the kernel gave an errno, the details have an
    /// [`Explanation`](super::Explanation).
    pub fn map_request(&self, request: &MapRequest) -> Result<Device> {
        let deadline = Deadline::after(self.cluster.deadline);
        self.carry_out(request.clone(), deadline, |krbd, request, _| krbd.map(request))
    }

    fn carry_out(
        &self,
        request: MapRequest,
        deadline: Deadline,
        map: impl FnOnce(&Krbd, &MapRequest, &Facts) -> Result<Device>,
    ) -> Result<Device> {
        let facts = self.check(&request, deadline)?;
        // What is left of the whole call's time is the kernel's.
        let request = match deadline.left() {
            Some(left) => request.deadline_at_most(left),
            None => request,
        };
        let log = KernelLog::from_now();
        map(&self.krbd, &request, &facts).map_err(|error| {
            let look = Deadline::after(Some(deadline.left().map_or(LOOK, |left| left.min(LOOK))));
            Explainer { attach: self, request: &request, facts: &facts, deadline: look }.explain(error, log)
        })
    }

    /// Unmaps as [`Detach::unmap`] does, but a mapping of another cluster is not taken for one of this.
    ///
    /// # Errors
    ///
    /// Those of [`Detach::unmap`], and of asking for the cluster's [`fsid`](Cluster::fsid).
    pub fn unmap(&self, target: impl Into<Target>, options: &UnmapOptions) -> Result<Vec<Unmapped>> {
        let target = target.into().of_cluster(self.cluster.fsid()?);
        Detach::new(&self.krbd).unmap(target, options)
    }
}

/// How long looks at the cluster may take that only serve an explanation.
const LOOK: Duration = Duration::from_secs(10);
