//! How much free disk the programs demand before they mount.

use std::path::PathBuf;

use super::{FuseOptions, FuseTool};

/// The programs' defaults, in MiB and as a number (`s3fs --help`, `cosfs --help`, `ossfs --help`).
const MULTIPART_SIZE: u64 = 10;
const PARALLEL_COUNT: u64 = 5;

impl FuseOptions {
    /// The directory whose file system is looked at: that of the cache, or else of temporary files.
    pub fn cache_directory(&self) -> PathBuf {
        self.use_cache.clone().or_else(|| self.tmpdir.clone()).unwrap_or_else(|| "/tmp".into())
    }

    /// The size of a part, in MiB.
    pub(super) fn part(&self) -> u64 {
        self.multipart_size.unwrap_or(MULTIPART_SIZE)
    }

    /// What all parts under way take together, in MiB.
    pub(super) fn parts(&self) -> u64 {
        self.part().saturating_mul(self.parallel_count.unwrap_or(PARALLEL_COUNT))
    }
}

impl FuseTool {
    /// How much must be free for a mount, in MiB: by the newer releases, and by the older ones, which may want more.
    ///
    /// s3fs and ossfs want `ensure_diskfree` and all parts of an upload (`multipart_size` × `parallel_count`). Where
    /// `ensure_diskfree` is given and less than one part, it counts as one; where it is not given, as nothing, and by
    /// older releases as one. cosfs wants one part, and the greater of `ensure_diskfree` and all parts.
    pub fn demand(self, options: &FuseOptions) -> (u64, u64) {
        let (part, parts) = (options.part(), options.parts());
        let (least, most) = match (self, options.ensure_diskfree) {
            (Self::Cosfs, ensured) => {
                let ensured = ensured.unwrap_or(0).max(parts);
                (ensured.saturating_add(part), ensured.saturating_add(part))
            }
            (_, Some(ensured)) => {
                let ensured = ensured.max(part);
                (ensured.saturating_add(parts), ensured.saturating_add(parts))
            }
            (_, None) => (parts, parts.saturating_add(part)),
        };
        (least, most)
    }

    /// The largest `ensure_diskfree` that does not demand more than `available` MiB; both in MiB.
    pub(super) fn largest_ensure_diskfree(self, options: &FuseOptions, available: u64) -> Option<u64> {
        let (part, parts) = (options.part(), options.parts());
        // What is demanded besides, and the least that ensure_diskfree counts as.
        let (besides, least) = match self {
            Self::Cosfs => (part, parts),
            Self::Ossfs | Self::S3fs => (parts, part),
        };
        available.checked_sub(besides).filter(|largest| *largest >= least)
    }
}
