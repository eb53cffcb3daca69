//! Whether there is room for a cache: what is there beside what is demanded.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::{FuseOptions, FuseTool};
use crate::error::{Error, Result};

const MIB: u64 = 1 << 20;

/// The room on a file system, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct DiskSpace {
    /// What users other than root may still take (`f_bavail`).
    pub available: u64,
    /// The size of the file system.
    pub total: u64,
}

/// What stands behind `There is no enough disk space for used as cache(or temporary) directory`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CacheReport {
    /// The program.
    pub tool: FuseTool,
    /// The directory that it looks at.
    pub directory: PathBuf,
    /// Whether that directory is there.
    pub exists: bool,
    /// The room on its file system; where it does not exist, on that of the nearest directory above it.
    pub space: DiskSpace,
    /// What the newer releases demand, in MiB.
    pub demand: u64,
    /// What the older releases demand, in MiB.
    pub demand_of_older: u64,
    /// What all parts of an upload take together: `multipart_size` times `parallel_count`, in MiB.
    pub parts: u64,
    /// What comes of it.
    pub verdict: CacheVerdict,
    /// The largest `ensure_diskfree` with which it would mount, in MiB; `None` where there is none.
    pub largest_ensure_diskfree: Option<u64>,
}

/// What comes of a check of the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CacheVerdict {
    /// There is enough room.
    Enough,
    /// There is enough for newer releases, and too little for older ones.
    EnoughForNewer,
    /// There is too little room.
    Short {
        /// How much is missing, in MiB.
        missing: u64,
    },
    /// The directory does not exist, which the program reports as a lack of room.
    NoDirectory,
}

impl DiskSpace {
    /// That of the file system which a path is on.
    ///
    /// # Errors
    ///
    /// `NotFound`, `PermissionDenied` and every other errno of statvfs(3).
    #[doc(alias = "statvfs")]
    pub fn of(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let status = rustix::fs::statvfs(path).map_err(|errno| {
            Error::from_errno("look at file system of", errno.raw_os_error()).with_object(path.display())
        })?;
        let bytes = |blocks: u64| blocks.saturating_mul(status.f_frsize);
        Ok(Self { available: bytes(status.f_bavail), total: bytes(status.f_blocks) })
    }
}

impl FuseTool {
    /// Looks whether this program has room for its cache on this host, with these options.
    ///
    /// It looks where it runs: in a container of the same node the directory may be another.
    ///
    /// # Errors
    ///
    /// Those of [`DiskSpace::of`], but for `NotFound`.
    pub fn check_cache(self, options: &FuseOptions) -> Result<CacheReport> {
        let directory = options.cache_directory();
        let exists = directory.is_dir();
        let nearest = directory.ancestors().find(|above| above.is_dir()).unwrap_or(Path::new("/"));
        Ok(self.judge_cache(options, exists, DiskSpace::of(nearest)?))
    }

    /// As [`check_cache`](Self::check_cache), for a directory that the caller has looked at. `space` is that of the
    /// nearest directory above where it does not exist: newer releases of s3fs and ossfs make it there.
    pub fn judge_cache(self, options: &FuseOptions, exists: bool, space: DiskSpace) -> CacheReport {
        let (demand, demand_of_older) = self.demand(options);
        let available = space.available / MIB;
        let verdict = match () {
            () if !exists && self == Self::Cosfs => CacheVerdict::NoDirectory,
            () if available < demand => CacheVerdict::Short { missing: demand - available },
            () if available < demand_of_older => CacheVerdict::EnoughForNewer,
            () => CacheVerdict::Enough,
        };
        CacheReport {
            tool: self,
            directory: options.cache_directory(),
            exists,
            space,
            demand,
            demand_of_older,
            parts: options.parts(),
            verdict,
            largest_ensure_diskfree: self.largest_ensure_diskfree(options, available),
        }
    }
}

impl CacheReport {
    /// Whether `multipart_size` was probably given in another unit than MiB: the parts of one upload would take more
    /// than a tenth of the disk.
    pub fn parts_are_suspicious(&self) -> bool {
        self.parts > self.space.total / MIB / 10
    }
}

impl fmt::Display for CacheReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tool, demand, demand_of_older, parts, .. } = self;
        let directory = self.directory.display();
        let available = self.space.available / MIB;
        match self.verdict {
            CacheVerdict::Enough => {
                write!(f, "{directory}: {available} MiB free, {tool} wants {demand_of_older}: enough")?
            }
            CacheVerdict::EnoughForNewer => write!(
                f,
                "{directory}: {available} MiB free: enough for newer releases of {tool}, which want {demand}, too little for \
                 older ones, which want {demand_of_older}"
            )?,
            CacheVerdict::Short { missing } => {
                write!(f, "{directory}: {available} MiB free, {tool} wants {demand}: {missing} MiB are missing")?;
            }
            CacheVerdict::NoDirectory => {
                write!(f, "{directory} does not exist; {tool} calls that a lack of disk space")?;
            }
        }
        if !self.exists && self.verdict != CacheVerdict::NoDirectory {
            write!(f, "; the directory does not exist, and older releases call that a lack of disk space")?;
        }
        if self.parts_are_suspicious() {
            write!(
                f,
                "; the parts of one upload take {parts} MiB, more than a tenth of the disk: multipart_size is in MiB"
            )?;
        }
        match self.largest_ensure_diskfree {
            Some(largest) => write!(f, "; the largest ensure_diskfree that fits is {largest}"),
            None => write!(f, "; no ensure_diskfree fits, so parts must be smaller or fewer, or the disk larger"),
        }
    }
}
