//! `rbd status`

use std::fmt::{self, Display};

use rbd::image::{Migration, MigrationImage, MigrationSource, PersistentCache};
use rbd::rados::ClusterBuilder;
use rbd::{ErrorKind, Image, Watcher};
use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::arguments::{Arguments, Command, FORMAT, IMAGE};
use crate::ceph_arguments::{Stop, errno, say, strerror};
use crate::format::Format;
use crate::spec::Names;

pub const COMMAND: Command = Command { names: &[&["status"]], options: &[IMAGE, FORMAT], positional: 1, run };

/// What is printed of an image.
struct Status {
    watchers: Vec<Watcher>,
    migration: Option<Migration>,
    cache: Option<PersistentCache>,
}

fn run(arguments: &Arguments, builder: &ClusterBuilder) -> Result<(), Stop> {
    let names = Names::of(arguments, true)?.without_snapshot()?;
    let format = Format::of(arguments)?;
    let cluster = crate::connect(builder)?;
    let image = names.open_read_only(&names.open_pool(&cluster)?, None)?;
    let status = Status::of(&image)?;
    format.print("status", &status, &status)
}

impl Status {
    fn of(image: &Image) -> Result<Self, Stop> {
        let failed = |error| Stop::Exit(errno(&error), format!("rbd: show status failed: {}", strerror(errno(&error))));
        let watchers = image.watchers().map_err(failed)?;
        let migration = image.migration().unwrap_or_else(|error| {
            say!("rbd: getting migration status failed: {}", strerror(errno(&error)));
            None
        });
        let cache = image.persistent_cache().unwrap_or_else(|error| {
            let what = "rbd: parsing persistent cache state failed";
            match (error.kind(), error.hint()) {
                (ErrorKind::InvalidData, Some(hint)) => say!("{what}: {hint}"),
                (ErrorKind::InvalidData, None) => say!("{what}"),
                _ => {
                    say!("rbd: getting persistent cache state failed: {}", strerror(errno(&error)));
                    // The original goes on to parse an empty text.
                    say!("{what}");
                }
            }
            None
        });
        Ok(Self { watchers, migration, cache })
    }
}

impl Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.watchers.is_empty() { "Watchers: none" } else { "Watchers:" })?;
        self.watchers.iter().try_for_each(|watcher| write!(f, "\n\twatcher={watcher}"))?;
        self.migration.iter().try_for_each(|migration| write!(f, "\n{}", MigrationText(migration)))?;
        self.cache.iter().try_for_each(|cache| write!(f, "\nPersistent cache state:\n{cache}"))
    }
}

struct MigrationText<'a>(&'a Migration);

impl Display for MigrationText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(migration) = self;
        f.write_str("Migration:\n\tsource: ")?;
        match &migration.source {
            MigrationSource::Image(image) => {
                write!(f, "{}", Location(image))?;
                if !image.image_id.is_empty() {
                    write!(f, " ({})", image.image_id)?;
                }
            }
            MigrationSource::Spec(spec) => f.write_str(spec)?,
            _ => {}
        }
        let destination = &migration.destination;
        write!(f, "\n\tdestination: {} ({})", Location(destination), destination.image_id)?;
        write!(f, "\n\tstate: {}", migration.state)?;
        if !migration.description.is_empty() {
            write!(f, " ({})", migration.description)?;
        }
        Ok(())
    }
}

/// `POOL/[NAMESPACE/]IMAGE`
struct Location<'a>(&'a MigrationImage);

impl Display for Location<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MigrationImage { pool, namespace, image, .. } = self.0;
        let separator = if namespace.is_empty() { "" } else { "/" };
        write!(f, "{pool}{separator}{namespace}/{image}")
    }
}

impl Serialize for Status {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("watchers", &self.watchers.iter().map(Entry).collect::<Vec<_>>())?;
        if let Some(migration) = &self.migration {
            map.serialize_entry("migration", &MigrationEntry(migration))?;
        }
        if let Some(cache) = &self.cache {
            map.serialize_entry("persistent_cache", cache)?;
        }
        map.end()
    }
}

struct Entry<'a>(&'a Watcher);

impl Serialize for Entry<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(3))?;
        map.serialize_entry("address", &self.0.address)?;
        map.serialize_entry("client", &self.0.client)?;
        map.serialize_entry("cookie", &self.0.cookie)?;
        map.end()
    }
}

struct MigrationEntry<'a>(&'a Migration);

impl Serialize for MigrationEntry<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(migration) = self;
        let mut map = serializer.serialize_map(None)?;
        match &migration.source {
            MigrationSource::Image(image) => serialize_image(&mut map, "source", image)?,
            MigrationSource::Spec(spec) => map.serialize_entry("source_spec", spec)?,
            _ => {}
        }
        serialize_image(&mut map, "dest", &migration.destination)?;
        map.serialize_entry("state", &migration.state.to_string())?;
        map.serialize_entry("state_description", &migration.description)?;
        map.end()
    }
}

fn serialize_image<M: SerializeMap>(map: &mut M, end: &str, image: &MigrationImage) -> Result<(), M::Error> {
    map.serialize_entry(&format!("{end}_pool_name"), &image.pool)?;
    map.serialize_entry(&format!("{end}_pool_namespace"), &image.namespace)?;
    map.serialize_entry(&format!("{end}_image_name"), &image.image)?;
    map.serialize_entry(&format!("{end}_image_id"), &image.image_id)
}
