//! The text of `rbd info`.

use std::fmt::{self, Write as _};
use std::time::SystemTime;

use super::info::{ImageGroup, ImageInfo, ImageParent, MirrorMode, MirrorState};
use crate::ffi;

impl fmt::Display for ImageInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "rbd image '{}':", self.name)?;
        writeln!(f, "\tsize {} in {} objects", Bytes(self.size), self.objects)?;
        writeln!(f, "\torder {} ({} objects)", self.order, Bytes(self.object_size))?;
        writeln!(f, "\tsnapshot_count: {}", self.snapshot_count)?;
        line(f, "id", self.id.as_ref())?;
        line(f, "data_pool", self.data_pool.as_ref())?;
        writeln!(f, "\tblock_name_prefix: {}", self.block_name_prefix)?;
        write!(f, "\tformat: {}", self.format)?;
        if self.format == 2 {
            write!(f, "\n\tfeatures: {}", joined(self.features.names()))?;
            write!(f, "\n\top_features: {}", joined(self.operation_features.names()))?;
            write!(f, "\n\tflags: {}", joined(self.flags.names()))?;
        }
        let time = |time: Option<SystemTime>| time.map(local_time);
        last_line(f, "group", self.group.as_ref())?;
        last_line(f, "create_timestamp", time(self.created))?;
        last_line(f, "access_timestamp", time(self.accessed))?;
        last_line(f, "modify_timestamp", time(self.modified))?;
        last_line(f, "protected", self.protected.map(|protected| if protected { "True" } else { "False" }))?;
        last_line(f, "snapshot_limit", self.snapshot_limit)?;
        last_line(f, "parent", self.parent.as_ref())?;
        last_line(f, "overlap", self.parent.as_ref().map(|parent| Bytes(parent.overlap)))?;
        last_line(f, "stripe unit", self.striping.map(|striping| Bytes(striping.unit)))?;
        last_line(f, "stripe count", self.striping.map(|striping| striping.count))?;
        last_line(f, "journal", self.journal.as_ref())?;
        let Some(mirroring) = &self.mirroring else { return Ok(()) };
        last_line(f, "mirroring state", Some(mirroring.state))?;
        if mirroring.state != MirrorState::Disabled {
            last_line(f, "mirroring mode", mirroring.mode)?;
            last_line(f, "mirroring global id", Some(&mirroring.global_id))?;
            last_line(f, "mirroring primary", Some(mirroring.primary))?;
        }
        Ok(())
    }
}

/// A line with another after it.
fn line(f: &mut fmt::Formatter<'_>, key: &str, value: Option<impl fmt::Display>) -> fmt::Result {
    value.iter().try_for_each(|value| writeln!(f, "\t{key}: {value}"))
}

/// A line that may be the last: it does not end in a line break.
fn last_line(f: &mut fmt::Formatter<'_>, key: &str, value: Option<impl fmt::Display>) -> fmt::Result {
    value.iter().try_for_each(|value| write!(f, "\n\t{key}: {value}"))
}

fn joined(names: impl Iterator<Item = &'static str>) -> String {
    names.collect::<Vec<_>>().join(", ")
}

/// As `ctime` prints it, without its line break.
pub(super) fn local_time(time: SystemTime) -> String {
    let seconds = time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    ffi::local_time(i64::try_from(seconds).unwrap_or(i64::MAX))
}

/// A number of bytes as Ceph prints it (`byte_u_t` in `include/types.h`): binary units, with as many decimals, two at
/// most, as seven characters hold.
pub(super) struct Bytes(pub(super) u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
        let Self(bytes) = *self;
        let index = (bytes.max(1).ilog2() / 10) as usize;
        let (unit, multiple) = (UNITS[index], 1_u64 << (10 * index));
        if bytes % multiple == 0 {
            return write!(f, "{} {unit}", bytes / multiple);
        }
        let mut text = String::new();
        for decimals in [2, 1, 0] {
            text.clear();
            write!(text, "{:.decimals$} {unit}", bytes as f64 / multiple as f64)?;
            if text.len() <= 7 {
                break;
            }
        }
        f.write_str(&text)
    }
}

impl fmt::Display for ImageGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/", self.pool)?;
        self.namespace.iter().try_for_each(|namespace| write!(f, "{namespace}/"))?;
        f.write_str(&self.name)
    }
}

impl fmt::Display for ImageParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/", self.pool)?;
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        write!(f, "{}@{}", self.image, self.snapshot)?;
        if self.in_trash {
            write!(f, " (trash {})", self.image_id)?;
        }
        Ok(())
    }
}

impl fmt::Display for MirrorMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Journal => f.write_str("journal"),
            Self::Snapshot => f.write_str("snapshot"),
            Self::Other(number) => write!(f, "unknown ({number})"),
        }
    }
}

impl fmt::Display for MirrorState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Disabling => f.write_str("disabling"),
            Self::Enabled => f.write_str("enabled"),
            Self::Disabled => f.write_str("disabled"),
            Self::Creating => f.write_str("creating"),
            Self::Other(number) => write!(f, "unknown ({number})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_printed_as_ceph_prints_them() {
        let cases = [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1 KiB"),
            (1536, "1.5 KiB"),
            (4 << 20, "4 MiB"),
            ((1 << 30) + (1 << 29), "1.5 GiB"),
            ((1 << 30) + 1, "1.0 GiB"),
            (100 * (1 << 30) + 1, "100 GiB"),
            ((10 << 20) + (1 << 18), "10 MiB"),
            (u64::MAX, "16 EiB"),
            (1 << 60, "1 EiB"),
        ];
        for (bytes, text) in cases {
            assert_eq!(Bytes(bytes).to_string(), text, "{bytes}");
        }
    }
}
