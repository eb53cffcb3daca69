//! Object stores mounted through FUSE: cosfs, ossfs and s3fs, which are one family.

mod cache;
mod demand;
mod options;
mod read;

use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

pub use cache::{CacheReport, CacheVerdict, DiskSpace};
pub use options::FuseOptions;

/// The program that mounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum FuseTool {
    /// Tencent's.
    Cosfs,
    /// Alibaba's, of its version 1.
    Ossfs,
    /// The one that the others come from.
    S3fs,
}

/// A mount of an object store that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct FuseMount {
    /// The program.
    pub tool: FuseTool,
    /// The bucket, with the path in it after a colon where there is one.
    pub bucket: Option<String>,
    /// Where it should be mounted.
    pub mount_point: Option<PathBuf>,
    /// The options in the message, as far as they are about the cache.
    pub options: FuseOptions,
    /// What the program complained of.
    pub complaint: FuseComplaint,
    /// The program's exit status.
    pub exit_status: Option<i32>,
}

/// Why it did not mount.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FuseComplaint {
    /// `There is no enough disk space for used as cache(or temporary) directory`: the file system of the cache has too
    /// little room, or, with cosfs and older releases of the others, the directory does not exist.
    NoSpace,
    /// The cache directory does not exist or is no directory.
    NoCacheDirectory,
    /// Another complaint, as it was printed; empty where there is none in the message.
    Other(String),
}

impl FuseTool {
    /// The program's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cosfs => "cosfs",
            Self::Ossfs => "ossfs",
            Self::S3fs => "s3fs",
        }
    }
}

impl fmt::Display for FuseTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for FuseMount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} did not mount", self.tool)?;
        if let Some(bucket) = &self.bucket {
            write!(f, " {bucket}")?;
        }
        match &self.complaint {
            FuseComplaint::NoSpace => f.write_str(": no room for its cache"),
            FuseComplaint::NoCacheDirectory => f.write_str(": no cache directory"),
            FuseComplaint::Other(text) if text.is_empty() => Ok(()),
            FuseComplaint::Other(text) => write!(f, ": {text}"),
        }
    }
}
