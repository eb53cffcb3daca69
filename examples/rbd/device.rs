//! `rbd device list` and `rbd device unmap`, and what they share with `rbd device map`.

use std::fmt::{self, Display};
use std::path::PathBuf;

use rbd::ErrorKind;
use rbd::krbd::{Device, IfSeveral, Krbd, UnmapOptions};
use rbd::rados::ClusterBuilder;
use serde::ser::{Serialize, Serializer};

use crate::arguments::{Arguments, Command, FORMAT, IMAGE, Opt, SNAPSHOT, Takes};
use crate::ceph_arguments::{Stop, errno, say, strerror};
use crate::format::Format;
use crate::spec::{Names, invalid};

/// Of what driver the device is.
pub const TYPE: &[Opt] = &[Opt::new("device-type", Takes::OneOf(&["ggate", "krbd", "nbd"])).short("-t")];
/// What the driver is told.
pub const OPTIONS: &[Opt] = &[Opt::new("options", Takes::Values).short("-o")];

pub const LIST: Command = Command {
    names: &[&["device", "list"], &["showmapped"], &["device", "ls"]],
    options: &[TYPE, FORMAT],
    positional: 0,
    run: list,
};

pub const UNMAP: Command = Command {
    names: &[&["device", "unmap"], &["unmap"]],
    options: &[TYPE, IMAGE, SNAPSHOT, OPTIONS],
    positional: 1,
    run: unmap,
};

/// Other drivers than the kernel's own are other programs.
pub fn check_type(arguments: &Arguments) -> Result<(), Stop> {
    match arguments.get("device-type") {
        None | Some("krbd") => Ok(()),
        Some(other) => Err(Stop::Refused(format!("device type {other}"))),
    }
}

fn list(arguments: &Arguments, _: &ClusterBuilder) -> Result<(), Stop> {
    check_type(arguments)?;
    let format = Format::of(arguments)?;
    let mut devices = match Krbd::new().list() {
        // Without a driver there are no devices.
        Err(error) if error.kind() == ErrorKind::ModuleNotLoaded => Vec::new(),
        devices => devices.map_err(|error| failed("rbd: device list failed", &error))?,
    };
    // udev's order: that of the paths, as text.
    devices.sort_by_key(|device| device.id.to_string());
    let rows: Vec<_> = devices.iter().map(Row).collect();
    format.print("devices", &rows, Table(&rows))
}

/// `WHAT: (N) …`
pub fn failed(what: &str, error: &rbd::Error) -> Stop {
    let errno = errno(error);
    Stop::Exit(errno, format!("{what}: {}", strerror(errno)))
}

struct Row<'a>(&'a Device);

impl Row<'_> {
    fn columns(&self) -> [(&'static str, String); 6] {
        let Self(device) = self;
        let name = |name: &rbd::RawName| String::from_utf8_lossy(name.as_bytes()).into_owned();
        [
            ("id", device.id.to_string()),
            ("pool", name(&device.pool)),
            ("namespace", device.namespace.as_ref().map(name).unwrap_or_default()),
            ("name", name(&device.image)),
            ("snap", device.snapshot.as_ref().map_or("-".into(), name)),
            ("device", device.node.display().to_string()),
        ]
    }
}

impl Serialize for Row<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.columns())
    }
}

/// Columns as wide as their widest cell, the last one too; nothing at all without rows.
struct Table<'a>(&'a [Row<'a>]);

impl Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cells = self.0.iter().map(|row| row.columns().map(|(_, cell)| cell));
        let heads = ["id", "pool", "namespace", "image", "snap", "device"].map(String::from);
        let lines: Vec<_> = std::iter::once(heads).chain(cells).collect();
        if lines.len() == 1 {
            return Ok(());
        }
        let widths: [_; 6] =
            std::array::from_fn(|column| lines.iter().map(|line| line[column].len()).max().unwrap_or(0));
        for (number, line) in lines.iter().enumerate() {
            f.write_str(if number == 0 { "" } else { "\n" })?;
            for (column, (cell, width)) in line.iter().zip(widths).enumerate() {
                let separator = if column == 0 { "" } else { "  " };
                // Bytes, not characters.
                write!(f, "{separator}{cell}{:1$}", "", width - cell.len())?;
            }
        }
        Ok(())
    }
}

fn unmap(arguments: &Arguments, builder: &ClusterBuilder) -> Result<(), Stop> {
    check_type(arguments)?;
    let path = arguments.positional.first().filter(|path| path.starts_with("/dev/"));
    let mut names = if path.is_some() { Names::default() } else { Names::of(arguments, false)? };
    if path.is_none() && names.image.is_empty() {
        return Err(invalid("unmap requires either image name or device path"));
    }
    let options = unmap_options(arguments)?;
    let krbd = Krbd::new();
    let unmapped = match path {
        Some(path) => krbd.unmap(PathBuf::from(path), &options),
        None => {
            if names.pool.is_empty() {
                names.pool = crate::connect(builder)?.config("rbd_default_pool").unwrap_or_default();
            }
            // Looked up once: what is named is what is unmapped, whatever others unmap meanwhile.
            names.spec().and_then(|spec| match krbd.find(&spec)?.as_slice() {
                [] => krbd.unmap(spec, &options),
                [first, others @ ..] => {
                    if !others.is_empty() {
                        say!("rbd: {names}: mapped more than once, unmapping {} only", first.node.display());
                    }
                    krbd.unmap(first, &options)
                }
            })
        }
    };
    unmapped.map(drop).map_err(|error| {
        let why = match (path, error.kind()) {
            (Some(path), ErrorKind::NotBlockDevice | ErrorKind::NotFound) => format!("'{path}' is not a block device"),
            (Some(path), ErrorKind::NotRbdDevice | ErrorKind::NotMapped | ErrorKind::ModuleNotLoaded) => {
                format!("'{path}' is not an rbd device")
            }
            (None, ErrorKind::NotMapped | ErrorKind::ModuleNotLoaded | ErrorKind::InvalidName) => {
                format!("{names}: not a mapped image or snapshot")
            }
            _ => {
                say!("rbd: sysfs write failed");
                return failed("rbd: unmap failed", &error);
            }
        };
        say!("rbd: {why}");
        invalid(format!("unmap failed: {}", strerror(libc::EINVAL)))
    })
}

fn unmap_options(arguments: &Arguments) -> Result<UnmapOptions, Stop> {
    let mut options = UnmapOptions::new().if_several(IfSeveral::One);
    for text in arguments.all("options") {
        for word in split(text) {
            match word.split('=').next().unwrap_or_default() {
                "force" => options = options.force(),
                // Nothing here waits for udev.
                "udev" | "noudev" => {}
                word => {
                    say!("rbd: unknown unmap option '{word}'");
                    return Err(invalid("couldn't parse unmap options"));
                }
            }
        }
    }
    Ok(options)
}

/// The first option may have blanks around it, the others may not.
fn split(text: &str) -> impl Iterator<Item = &str> {
    let text = text.trim_start_matches([',', ' ']);
    let (first, rest) = text.split_once([',', ' ']).unwrap_or((text, ""));
    std::iter::once(first).chain(rest.split(',')).filter(|word| !word.is_empty())
}
