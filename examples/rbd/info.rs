//! `rbd info`

use rbd::Features;
use rbd::rados::ClusterBuilder;

use crate::arguments::{Arguments, Command, FORMAT, IMAGE, Opt, SNAPSHOT, Takes};
use crate::ceph_arguments::{Stop, errno, strerror};
use crate::format::Format;
use crate::spec::{Names, invalid};

pub const COMMAND: Command = Command {
    names: &[&["info"]],
    options: &[IMAGE, SNAPSHOT, &[Opt::new("image-id", Takes::Value)], FORMAT],
    positional: 1,
    run,
};

fn run(arguments: &Arguments, builder: &ClusterBuilder) -> Result<(), Stop> {
    let id = arguments.get("image-id").filter(|id| !id.is_empty());
    let names = Names::of(arguments, id.is_none())?;
    if id.is_some() && !names.image.is_empty() {
        return Err(invalid("trying to access image using both name and id. "));
    }
    let format = Format::of(arguments)?;
    let cluster = crate::connect(builder)?;
    let image = names.open_read_only(&names.open_pool(&cluster)?, id)?;
    let mut info = image.info().map_err(|error| {
        let errno = errno(&error);
        Stop::Exit(errno, format!("rbd: info: {}", strerror(errno)))
    })?;
    // It has no name for this one.
    info.features = info.features.difference(Features::DIRTY_CACHE);
    format.print("image", &info, &info)
}
