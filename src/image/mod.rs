//! Images: open ones, and those of a pool.
//!
//! | aspect | here |
//! |---|---|
//! | open and close | [`Pool::open_read_only`](crate::Pool::open_read_only) and its kin, [`Image::close`] |
//! | what `rbd info` prints | [`Image::info`], [`ImageInfo`] |
//! | who watches it, who has its lock | [`Image::watchers`], [`Image::lock_owners`], [`Image::lockers`] |
//! | its migration | [`Image::migration`] |
//! | the cache that a client keeps of it | [`Image::persistent_cache`] |
//! | features | [`Image::features`], [`Image::apply`] |
//! | data | [`Image::read`], [`Image::write`], [`Image::flush`] |
//! | the images of a pool | [`Pool::images`](crate::Pool::images), [`Pool::create_image`](crate::Pool::create_image) |

mod config;
mod create;
mod directory;
mod feature;
mod info;
#[cfg(feature = "serde")]
mod info_json;
mod info_text;
mod io;
mod lock;
mod migration;
mod open;
mod persistent_cache;
#[cfg(feature = "list-watchers")]
mod scan;
mod watcher;

pub use create::ImageOptions;
pub use directory::{ImageEntry, Images};
pub use feature::StepReport;
pub use info::{
    ImageFlags, ImageGroup, ImageInfo, ImageParent, MirrorImage, MirrorMode, MirrorState, OperationFeatures, Striping,
};
pub use lock::BreakLock;
#[cfg(feature = "list-watchers")]
pub(crate) use lock::lockers_of_header;
pub use migration::{Migration, MigrationImage, MigrationSource, MigrationState};
pub use open::Image;
pub use persistent_cache::PersistentCache;
#[cfg(feature = "list-watchers")]
pub use scan::{Scan, ScannedImage};
