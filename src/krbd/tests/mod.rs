//! The driver against a host that the test writes: for what the real kernel cannot be made to do.

mod helping;
mod listing;
mod mapping;
mod preflight;
mod requests;
mod unmapping;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::*;
use crate::error::{Details, ErrorKind};

/// Directories like `/sys`, `/dev` and `/proc`, and a bus that does what the test says.
struct Host {
    root: tempfile::TempDir,
}

const FSID_1: &str = "11111111-1111-4111-8111-111111111111";
const FSID_2: &str = "22222222-2222-4222-8222-222222222222";

impl Host {
    /// A host with the module loaded and nothing mapped.
    fn new() -> Self {
        let host = Self { root: tempfile::tempdir().unwrap() };
        fs::create_dir_all(host.bus().join("devices")).unwrap();
        for file in ["add", "remove", "add_single_major", "remove_single_major"] {
            fs::write(host.bus().join(file), "").unwrap();
        }
        fs::create_dir(host.root.path().join("dev")).unwrap();
        host
    }

    fn bus(&self) -> PathBuf {
        self.root.path().join("sys/bus/rbd")
    }

    fn directory(&self, id: u32) -> PathBuf {
        self.bus().join(format!("devices/{id}"))
    }

    fn krbd(&self) -> Krbd {
        let root = self.root.path();
        Krbd::with_roots(root.join("sys"), root.join("dev"), "/proc")
    }

    /// With a bus whose writes are answered by `kernel`, which is told the file's name and what is written.
    fn with_kernel(&self, kernel: impl Fn(&Path, &str, &str) -> io::Result<()> + Send + Sync + 'static) -> Krbd {
        let bus = self.bus();
        let answer = move |file: &Path, request: &[u8]| {
            let name = file.file_name().unwrap().to_str().unwrap();
            kernel(&bus, name, str::from_utf8(request).unwrap()).map_err(|error| BusError(Stage::Write, error))
        };
        Krbd { bus: Bus(Arc::new(answer)), ..self.krbd() }
    }

    /// A mapping as the kernel would show it, of `POOL [NAMESPACE] IMAGE SNAPSHOT`.
    fn add(&self, id: u32, fsid: &str, [pool, namespace, image, snapshot]: [&str; 4]) {
        add_device(&self.bus(), id, [pool, namespace, image, snapshot]);
        self.set(id, "cluster_fsid", fsid);
    }

    fn set(&self, id: u32, attribute: &str, value: &str) {
        fs::write(self.directory(id).join(attribute), format!("{value}\n")).unwrap();
    }
}

fn add_device(bus: &Path, id: u32, [pool, namespace, image, snapshot]: [&str; 4]) {
    let directory = bus.join(format!("devices/{id}"));
    fs::create_dir_all(&directory).unwrap();
    let minor = (id * 16).to_string();
    let attributes = [
        ("client_addr", "192.0.2.10:0/1570937743"),
        ("client_id", "client4115"),
        ("cluster_fsid", FSID_1),
        ("current_snap", snapshot),
        ("features", "0x000000000000003d"),
        ("image_id", "fb236b8b4567"),
        ("major", "254"),
        ("minor", &minor),
        ("name", image),
        ("parent", "(no parent image)"),
        ("pool", pool),
        ("pool_id", "2"),
        ("pool_ns", namespace),
        ("size", "1073741824"),
        ("snap_id", "18446744073709551614"),
    ];
    for (attribute, value) in attributes {
        fs::write(directory.join(attribute), format!("{value}\n")).unwrap();
    }
}

fn errno(errno: i32) -> io::Result<()> {
    Err(io::Error::from_raw_os_error(errno))
}

/// A request without a key: the machine that runs the tests may have no key type for one.
fn request(spec: &str) -> MapRequest {
    MapRequest::new("192.0.2.1".parse().unwrap(), Credentials::without_key("admin"), spec.parse().unwrap())
        .node(NodePolicy::Ignore)
}
