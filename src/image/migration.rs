//! The migration of an image to another place or format.

use std::fmt;

use super::Image;
use crate::error::Result;
use crate::feature::Features;
use crate::ffi::cluster::RadosHandle;
use crate::ffi::migration::EndText;

/// A migration that has begun (`rbd migration prepare`) and is not committed: what `rbd status` prints of it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Migration {
    /// Where the data comes from.
    pub source: MigrationSource,
    /// The new image.
    pub destination: MigrationImage,
    /// How far it has come.
    pub state: MigrationState,
    /// What librbd says beyond the state: what failed, or how much is done. Often empty.
    pub description: String,
}

/// Where the data of a migration comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum MigrationSource {
    /// An image of this cluster.
    Image(MigrationImage),
    /// Something else (`rbd migration prepare --import-only`), as JSON.
    Spec(String),
}

/// One end of a migration.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct MigrationImage {
    /// Its pool; one that is gone is named by its number.
    pub pool: String,
    /// Its namespace; empty is the default one.
    pub namespace: String,
    /// Its name.
    pub image: String,
    /// Its id; empty for format 1.
    pub image_id: String,
}

/// How far a migration has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum MigrationState {
    /// It failed.
    Error,
    /// The new image is being made.
    Preparing,
    /// Clients can use the new image; nothing is copied yet.
    Prepared,
    /// Data is being copied.
    Executing,
    /// All data is copied.
    Executed,
    /// It is being taken back.
    Aborting,
    /// One that this library does not know, by its number in `rbd_image_migration_state_t`.
    Other(i32),
}

impl Image {
    /// The migration that the image is the source or the destination of; `None` where there is none.
    ///
    /// # Errors
    ///
    /// As [every call](crate::rados#errors).
    #[doc(alias = "rbd_migration_status")]
    pub fn migration(&self) -> Result<Option<Migration>> {
        self.call("read migration of image", |image| {
            if image.features()? & Features::MIGRATING.bits() == 0 {
                return Ok(None);
            }
            let found = image.migration()?;
            let rados = image.io().cluster();
            let source = if found.source.pool < 0 {
                MigrationSource::Spec(image.migration_source()?)
            } else {
                MigrationSource::Image(end(rados, found.source))
            };
            Ok(Some(Migration {
                source,
                destination: end(rados, found.destination),
                state: match found.state {
                    ceph_sys::RBD_IMAGE_MIGRATION_STATE_ERROR => MigrationState::Error,
                    ceph_sys::RBD_IMAGE_MIGRATION_STATE_PREPARING => MigrationState::Preparing,
                    ceph_sys::RBD_IMAGE_MIGRATION_STATE_PREPARED => MigrationState::Prepared,
                    ceph_sys::RBD_IMAGE_MIGRATION_STATE_EXECUTING => MigrationState::Executing,
                    ceph_sys::RBD_IMAGE_MIGRATION_STATE_EXECUTED => MigrationState::Executed,
                    ceph_sys::RBD_IMAGE_MIGRATION_STATE_ABORTING => MigrationState::Aborting,
                    other => MigrationState::Other(other),
                },
                description: found.description,
            }))
        })
    }
}

fn end(rados: &RadosHandle, end: EndText) -> MigrationImage {
    MigrationImage {
        pool: rados.pool_name(end.pool).unwrap_or_else(|_| end.pool.to_string()),
        namespace: end.namespace,
        image: end.image,
        image_id: end.image_id,
    }
}

/// As `rbd status` prints it.
impl fmt::Display for MigrationState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Error => f.write_str("error"),
            Self::Preparing => f.write_str("preparing"),
            Self::Prepared => f.write_str("prepared"),
            Self::Executing => f.write_str("executing"),
            Self::Executed => f.write_str("executed"),
            Self::Aborting => f.write_str("aborting"),
            Self::Other(number) => write!(f, "unknown ({number})"),
        }
    }
}
