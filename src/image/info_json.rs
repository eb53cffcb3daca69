//! The keys of `rbd info --format json`, in its order.

use serde::ser::{Serialize, SerializeMap, Serializer};

use super::info::{ImageInfo, ImageParent, MirrorImage, MirrorMode, MirrorState};
use super::info_text::local_time;

impl Serialize for ImageInfo {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("name", &self.name)?;
        map.serialize_entry("id", self.id.as_ref().map_or("", |id| id.as_str()))?;
        map.serialize_entry("size", &self.size)?;
        map.serialize_entry("objects", &self.objects)?;
        map.serialize_entry("order", &self.order)?;
        map.serialize_entry("object_size", &self.object_size)?;
        map.serialize_entry("snapshot_count", &self.snapshot_count)?;
        entry(&mut map, "data_pool", self.data_pool.as_ref())?;
        map.serialize_entry("block_name_prefix", &self.block_name_prefix)?;
        map.serialize_entry("format", &self.format)?;
        if self.format == 2 {
            map.serialize_entry("features", &self.features.names().collect::<Vec<_>>())?;
            map.serialize_entry("op_features", &self.operation_features.names().collect::<Vec<_>>())?;
            map.serialize_entry("flags", &self.flags.names().collect::<Vec<_>>())?;
        }
        entry(&mut map, "group", self.group.as_ref().map(ToString::to_string))?;
        entry(&mut map, "create_timestamp", self.created.map(local_time))?;
        entry(&mut map, "access_timestamp", self.accessed.map(local_time))?;
        entry(&mut map, "modify_timestamp", self.modified.map(local_time))?;
        // A string, as `rbd` has it.
        entry(&mut map, "protected", self.protected.map(|protected| protected.to_string()))?;
        entry(&mut map, "snapshot_limit", self.snapshot_limit)?;
        entry(&mut map, "parent", self.parent.as_ref())?;
        entry(&mut map, "stripe_unit", self.striping.map(|striping| striping.unit))?;
        entry(&mut map, "stripe_count", self.striping.map(|striping| striping.count))?;
        entry(&mut map, "journal", self.journal.as_ref())?;
        entry(&mut map, "mirroring", self.mirroring.as_ref())?;
        map.end()
    }
}

/// An entry that is left out where there is no value.
fn entry<M: SerializeMap>(map: &mut M, key: &str, value: Option<impl Serialize>) -> Result<(), M::Error> {
    value.iter().try_for_each(|value| map.serialize_entry(key, value))
}

impl Serialize for ImageParent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(7))?;
        map.serialize_entry("pool", &self.pool)?;
        map.serialize_entry("pool_namespace", &self.namespace)?;
        map.serialize_entry("image", &self.image)?;
        map.serialize_entry("id", &self.image_id)?;
        map.serialize_entry("snapshot", &self.snapshot)?;
        map.serialize_entry("trash", &self.in_trash)?;
        map.serialize_entry("overlap", &self.overlap)?;
        map.end()
    }
}

impl Serialize for MirrorImage {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        // `rbd` says so too where mirroring is disabled.
        map.serialize_entry("mode", &self.mode.unwrap_or(MirrorMode::Journal).to_string())?;
        map.serialize_entry("state", &self.state.to_string())?;
        if self.state != MirrorState::Disabled {
            map.serialize_entry("global_id", &self.global_id)?;
            map.serialize_entry("primary", &self.primary)?;
        }
        map.end()
    }
}
