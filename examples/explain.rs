//! Explains what kubelet and the attach controller print: a message, `kubectl describe pod`, or a log in; what is
//! behind it, what to check and what to change out.
//!
//! ```text
//! kubectl describe pod web-0 | explain
//! explain 'rbd image kube/pvc-1 is still being used' --usage --id admin
//! ```
//!
//! With `--manifest` (`kubectl get pv NAME -o yaml`) the volume's own manifest tells the image behind it. On the node,
//! `--here` looks whether an object store's cache has room; with a manifest, too, it prints how to replace the volume
//! by a corrected one. `--usage` goes on to the cluster and says who uses the image.
//!
//! Exit status: 0 where every message is known, 1 on an error, 2 where one is not known or there is none, 64 for wrong
//! arguments.

#[cfg(feature = "librados")]
#[allow(dead_code)] // It ends with one of three statuses, not as the others do.
mod connect;
mod print;
#[allow(dead_code)] // As above: no errno is one of them.
mod program;

use std::error::Error;
use std::fmt;
use std::io::{IsTerminal, Read};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use rbd::kubernetes::{
    Advice, CacheReport, Failure, FailureMessage, FuseComplaint, FuseMount, FuseOptions, Replacement, VolumeManifest,
};
use serde::Serialize;

#[derive(Parser)]
#[command(about = "Explain what kubelet says of a volume")]
struct Arguments {
    /// The message [default: standard input]
    message: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// The manifest of the volume that the messages are about
    #[arg(long, value_name = "FILE")]
    manifest: Option<PathBuf>,
    /// This is the node: look at the directory of an object store's cache
    #[arg(long)]
    here: bool,
    /// Ask the cluster who uses the image
    #[cfg(feature = "librados")]
    #[arg(long)]
    usage: bool,
    #[cfg(feature = "librados")]
    #[command(flatten)]
    cluster: connect::Connect,
}

fn main() -> ExitCode {
    match run(&program::arguments()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(2),
        Err(error) => {
            program::say(format_args!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Whether every message is known.
fn run(arguments: &Arguments) -> Result<bool, Box<dyn Error>> {
    let text = match &arguments.message {
        Some(message) => message.clone(),
        None => read_standard_input()?,
    };
    let volume = arguments.manifest.as_ref().map(|file| -> Result<_, Box<dyn Error>> {
        let text = std::fs::read_to_string(file).map_err(|error| format!("read {}: {error}", file.display()))?;
        Ok(VolumeManifest::parse(&text)?)
    });
    let volume = volume.transpose()?;
    let messages = FailureMessage::parse_all(&text);
    let is_known = !messages.is_empty() && messages.iter().all(FailureMessage::is_recognised);
    let answers = messages.into_iter().map(|message| arguments.answer(message, volume.as_ref()));
    let answers = answers.collect::<Result<Vec<_>, _>>()?;
    if arguments.json {
        print::line(serde_json::to_string_pretty(&answers)?)?;
    } else if answers.is_empty() {
        print::line("There is no message of kubelet's about a volume in this text.")?;
    }
    for answer in answers.iter().filter(|_| !arguments.json) {
        print::line(format_args!("{answer}\n"))?;
    }
    Ok(is_known)
}

#[derive(Serialize)]
struct Answer {
    message: FailureMessage,
    advice: Advice,
    cache: Option<CacheReport>,
    replacement: Option<Replacement>,
    #[cfg(feature = "librados")]
    usage: Option<rbd::Usage>,
}

fn read_standard_input() -> Result<String, Box<dyn Error>> {
    if std::io::stdin().is_terminal() {
        print::aside("explain: paste the message, then press Ctrl-D");
    }
    let mut bytes = Vec::new();
    std::io::stdin().read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

impl Arguments {
    fn answer(&self, message: FailureMessage, volume: Option<&VolumeManifest>) -> Result<Answer, Box<dyn Error>> {
        let advice = message.explain();
        let volume = volume.filter(|volume| message.volume.as_deref().is_none_or(|name| name == volume.name()));
        let cache = match &message.failure {
            Failure::FuseMount(FuseMount { complaint: FuseComplaint::Other(_), .. }) => None,
            Failure::FuseMount(mount) if self.here => Some(mount.tool.check_cache(&mount.options)?),
            _ => None,
        };
        let largest = cache.as_ref().and_then(|report| report.largest_ensure_diskfree);
        let replacement = volume.zip(largest).map(|(old, largest)| {
            let corrected = FuseOptions::parse(&format!("-oensure_diskfree={largest}"));
            Replacement::new(old, &old.with_cache_options(&corrected)?)
        });
        Ok(Answer {
            replacement: replacement.transpose()?,
            #[cfg(feature = "librados")]
            usage: self.usage(advice.image.clone().or_else(|| volume?.image()))?,
            message,
            advice,
            cache,
        })
    }

    /// Who uses the image, where that was asked for.
    #[cfg(feature = "librados")]
    fn usage(&self, image: Option<rbd::ImageSpec>) -> Result<Option<rbd::Usage>, Box<dyn Error>> {
        let Some(image) = image.filter(|_| self.usage) else { return Ok(None) };
        Ok(Some(rbd::Usage::of(&self.cluster.connect()?, &image)?))
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n{}", self.message, self.advice)?;
        if let Some(cache) = &self.cache {
            write!(f, "\nhere: {cache}")?;
        }
        if let Some(replacement) = &self.replacement {
            write!(f, "\nto replace the volume:\n{replacement}")?;
        }
        #[cfg(feature = "librados")]
        if let Some(usage) = &self.usage {
            write!(f, "\nnow:\n{usage}")?;
        }
        Ok(())
    }
}
