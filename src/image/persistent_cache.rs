//! The persistent write-back cache of an image, by what its client last wrote down.

use std::fmt;
use std::time::{Duration, SystemTime};

use serde_json::Value;

use super::Image;
use super::info_text::{Bytes, local_time};
use crate::error::{ErrorKind, Result};
use crate::feature::Features;

/// `PERSISTENT_CACHE_STATE` in `librbd/cache/Types.h`.
const STATE: &str = ".rbd_persistent_cache_state";
const READ: &str = "read persistent cache state of image";

/// The write-back cache (`rbd_persistent_cache_mode`) that a client keeps for the image on its own host: what
/// `rbd status` prints of it. As long as it is not [`clean`](Self::clean) that host alone has the newest data.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PersistentCache {
    /// The host that has it.
    pub host: String,
    /// The file or device on that host.
    pub path: String,
    /// Its size in bytes.
    pub size: u64,
    /// `rwl` (persistent memory) or `ssd`.
    pub mode: String,
    /// When the client wrote this down.
    pub stats_timestamp: SystemTime,
    /// Whether it exists.
    pub present: bool,
    /// Whether it holds no data.
    pub empty: bool,
    /// Whether all its data is in the cluster too.
    pub clean: bool,
    /// Bytes in use.
    pub allocated_bytes: u64,
    /// Bytes of cached data.
    pub cached_bytes: u64,
    /// Bytes that are not in the cluster yet.
    pub dirty_bytes: u64,
    /// Bytes that are free.
    pub free_bytes: u64,
    /// Reads that it answered alone.
    pub hits_full: u64,
    /// Reads that it answered in part.
    pub hits_partial: u64,
    /// Reads that the cluster answered.
    pub misses: u64,
    /// Bytes read from it.
    pub hit_bytes: u64,
    /// Bytes read from the cluster.
    pub miss_bytes: u64,
}

impl Image {
    /// The image's persistent cache; `None` for an image without the feature `dirty-cache`, which it has as long as a
    /// client keeps one.
    ///
    /// # Errors
    ///
    /// `NotFound` if no client wrote its state down, `InvalidData` if what it wrote is not understood.
    #[doc(alias = "rbd_metadata_get")]
    pub fn persistent_cache(&self) -> Result<Option<PersistentCache>> {
        let text = self.call(READ, |image| {
            if image.features()? & Features::DIRTY_CACHE.bits() == 0 {
                Ok(None)
            } else {
                image.metadata(STATE).map(Some)
            }
        })?;
        let invalid = || self.error(ErrorKind::InvalidData, READ);
        text.map(|text| {
            let state = serde_json::from_str(&text).map_err(|error| invalid().with_source(error))?;
            PersistentCache::read(&state).map_err(|key| invalid().with_hint(format!("it has no valid {key:?}")))
        })
        .transpose()
    }
}

impl PersistentCache {
    /// Reads the JSON that librbd writes; fails with the key of what is missing or of another type.
    fn read(state: &Value) -> std::result::Result<Self, &'static str> {
        let text = |key| state[key].as_str().map(String::from).ok_or(key);
        let number = |key| state[key].as_u64().ok_or(key);
        let flag = |key| state[key].as_bool().ok_or(key);
        let stats_timestamp = "stats_timestamp";
        let since = Duration::from_secs(number(stats_timestamp)?);
        Ok(Self {
            host: text("host")?,
            path: text("path")?,
            size: number("size")?,
            mode: text("mode")?,
            stats_timestamp: SystemTime::UNIX_EPOCH.checked_add(since).ok_or(stats_timestamp)?,
            present: flag("present")?,
            empty: flag("empty")?,
            clean: flag("clean")?,
            allocated_bytes: number("allocated_bytes")?,
            cached_bytes: number("cached_bytes")?,
            dirty_bytes: number("dirty_bytes")?,
            free_bytes: number("free_bytes")?,
            hits_full: number("hits_full")?,
            hits_partial: number("hits_partial")?,
            misses: number("misses")?,
            hit_bytes: number("hit_bytes")?,
            miss_bytes: number("miss_bytes")?,
        })
    }

    /// Of all reads, those that it answered alone and in part, and of all bytes read those that were in it; in percent.
    fn percentages(&self) -> [u64; 3] {
        let share = |part, rest: &[u64]| {
            let part = u128::from(part);
            let whole = part + rest.iter().copied().map(u128::from).sum::<u128>();
            (100 * part).checked_div(whole).unwrap_or(0) as u64
        };
        let Self { hits_full, hits_partial, misses, hit_bytes, miss_bytes, .. } = *self;
        [
            share(hits_full, &[hits_partial, misses]),
            share(hits_partial, &[hits_full, misses]),
            share(hit_bytes, &[miss_bytes]),
        ]
    }
}

/// As `rbd status` prints it, without its heading.
impl fmt::Display for PersistentCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [full, partial, bytes] = self.percentages();
        writeln!(f, "\thost: {}", self.host)?;
        writeln!(f, "\tpath: {}", self.path)?;
        writeln!(f, "\tsize: {}", Bytes(self.size))?;
        writeln!(f, "\tmode: {}", self.mode)?;
        writeln!(f, "\tstats_timestamp: {}", local_time(self.stats_timestamp))?;
        writeln!(f, "\tpresent: {}\tempty: {}\tclean: {}", self.present, self.empty, self.clean)?;
        writeln!(f, "\tallocated: {}", Bytes(self.allocated_bytes))?;
        writeln!(f, "\tcached: {}", Bytes(self.cached_bytes))?;
        writeln!(f, "\tdirty: {}", Bytes(self.dirty_bytes))?;
        writeln!(f, "\tfree: {}", Bytes(self.free_bytes))?;
        writeln!(f, "\thits_full: {} / {full}%", self.hits_full)?;
        writeln!(f, "\thits_partial: {} / {partial}%", self.hits_partial)?;
        writeln!(f, "\tmisses: {}", self.misses)?;
        writeln!(f, "\thit_bytes: {} / {bytes}%", Bytes(self.hit_bytes))?;
        write!(f, "\tmiss_bytes: {}", Bytes(self.miss_bytes))
    }
}

/// The keys of `rbd status --format json`, in its order.
#[cfg(feature = "serde")]
impl serde::Serialize for PersistentCache {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        use serde::ser::SerializeMap as _;

        let [full, partial, bytes] = self.percentages();
        let mut map = serializer.serialize_map(Some(20))?;
        map.serialize_entry("host", &self.host)?;
        map.serialize_entry("path", &self.path)?;
        map.serialize_entry("size", &self.size)?;
        map.serialize_entry("mode", &self.mode)?;
        map.serialize_entry("stats_timestamp", &local_time(self.stats_timestamp))?;
        map.serialize_entry("present", &self.present)?;
        map.serialize_entry("empty", &self.empty)?;
        map.serialize_entry("clean", &self.clean)?;
        map.serialize_entry("allocated_bytes", &self.allocated_bytes)?;
        map.serialize_entry("cached_bytes", &self.cached_bytes)?;
        map.serialize_entry("dirty_bytes", &self.dirty_bytes)?;
        map.serialize_entry("free_bytes", &self.free_bytes)?;
        map.serialize_entry("hits_full", &self.hits_full)?;
        map.serialize_entry("hits_full_percent", &full)?;
        map.serialize_entry("hits_partial", &self.hits_partial)?;
        map.serialize_entry("hits_partial_percent", &partial)?;
        map.serialize_entry("misses", &self.misses)?;
        map.serialize_entry("hit_bytes", &self.hit_bytes)?;
        map.serialize_entry("hit_bytes_percent", &bytes)?;
        map.serialize_entry("miss_bytes", &self.miss_bytes)?;
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn state() -> Value {
        json!({
            "host": "node1", "path": "/mnt/rbd-pwl.rbd.1.pool", "size": 1 << 30, "mode": "ssd",
            "stats_timestamp": 1_700_000_000, "present": true, "empty": false, "clean": false,
            "allocated_bytes": 4, "cached_bytes": 3, "dirty_bytes": 2, "free_bytes": 1,
            "hits_full": 1450, "hits_partial": 3, "misses": 924, "hit_bytes": 2, "miss_bytes": 1,
        })
    }

    #[test]
    fn what_is_missing_or_of_another_type_is_named() {
        for key in state().as_object().unwrap().keys() {
            for wrong in [Value::Null, json!([]), json!(-1)] {
                let mut state = state();
                state[key] = wrong;
                assert_eq!(PersistentCache::read(&state), Err(&**key));
            }
        }
        assert_eq!(PersistentCache::read(&json!(3)), Err("stats_timestamp"));
    }

    #[test]
    fn percentages_are_cut_off_and_of_nothing_they_are_zero() {
        let with = |changes: Value| {
            let mut state = state();
            state.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
            PersistentCache::read(&state).unwrap().percentages()
        };
        assert_eq!(with(json!({})), [61, 0, 66]);
        assert_eq!(
            with(json!({"hits_full": 0, "hits_partial": 0, "misses": 0, "hit_bytes": 0, "miss_bytes": 0})),
            [0; 3]
        );
        assert_eq!(with(json!({"hit_bytes": u64::MAX, "miss_bytes": u64::MAX})), [61, 0, 50]);
    }
}
