//! Reading the failure of a mount: the program's own words, those of Tencent's launcher (JSON in a gRPC error), and
//! those of `mount -t fuse.s3fs`.

use super::{FuseComplaint, FuseMount, FuseOptions, FuseTool};
use crate::kubernetes::flat::{Flat, one_line};

impl FuseMount {
    pub(in crate::kubernetes) fn read(flat: &Flat) -> Option<Self> {
        let no_space = flat.has("enough disk space for used as cache");
        let tools = [FuseTool::Cosfs, FuseTool::Ossfs, FuseTool::S3fs];
        // Their texts name s3fs, too: the one that stands as the program counts.
        let tool = tools.into_iter().find(|tool| is_named(flat, *tool));
        let tool = tool.or(no_space.then_some(FuseTool::S3fs))?;
        let command = command(flat, tool);
        let mut words = command.split_whitespace().filter(|word| !word.starts_with('-'));
        Some(Self {
            tool,
            bucket: words.next().map(str::to_owned),
            mount_point: words.next().filter(|word| word.starts_with('/')).map(Into::into),
            options: FuseOptions::parse(command),
            complaint: complaint(flat, tool, no_space),
            exit_status: flat.number_after("exit status "),
        })
    }
}

/// Whether the program speaks (`cosfs: …`), was run (`exec command cosfs …`, `Mounting arguments: … -t fuse.s3fs`), or
/// is named by the driver (`mounter: cosfs`).
fn is_named(flat: &Flat, tool: FuseTool) -> bool {
    let ways = ["{}: ", "command {} ", "mounter: {},", "-t fuse.{} ", "-t {} ", "/bin/{} "];
    ways.iter().any(|way| {
        let way = way.replace("{}", tool.name());
        flat.places(&way).iter().any(|&at| is_word_start(flat.text(), at))
    })
}

/// `csi.cosfs: …` is the name of a driver.
fn is_word_start(text: &str, at: usize) -> bool {
    !text[..at].ends_with(|c: char| c.is_alphanumeric() || c == '.' || c == '_')
}

/// The arguments that the program was run with.
fn command(flat: &Flat, tool: FuseTool) -> &str {
    let run = [format!("command {} ", tool.name()), format!("/bin/{} ", tool.name())];
    let arguments = run.iter().find_map(|run| flat.after(run)).or_else(|| {
        // mount(8): `Mounting arguments: -t fuse.s3fs -o OPTIONS BUCKET MOUNTPOINT`
        flat.after("Mounting arguments:")
    });
    let arguments = arguments.unwrap_or_default();
    let end = ["failed", "Output:", "output:", "\",", "\n\n"].iter().filter_map(|end| arguments.find(end)).min();
    &arguments[..end.unwrap_or(arguments.len())]
}

fn complaint(flat: &Flat, tool: FuseTool, no_space: bool) -> FuseComplaint {
    if no_space {
        return FuseComplaint::NoSpace;
    }
    if flat.has("could not access to cache directory") || flat.has("the cache directory(") {
        return FuseComplaint::NoCacheDirectory;
    }
    // What it printed: a line that begins with its name.
    let said = format!("{}: ", tool.name());
    let at = flat.places(&said).into_iter().rfind(|&at| is_word_start(flat.text(), at));
    let line = at.map(|at| flat.text()[at..].lines().next().unwrap_or_default()).unwrap_or_default();
    let line = line.split_once(':').map_or("", |(_, rest)| rest);
    FuseComplaint::Other(one_line(line.split("\", ").next().unwrap_or_default()))
}
