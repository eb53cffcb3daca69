//! Who uses an image: who has it open, who holds its lock, whom the cluster refuses, and on this host which device it
//! is and what keeps that busy.
//!
//! ```text
//! image_users kube/pvc-1
//! image_users kube/pvc-1 --ask 3        # wait up to 3 s for a sign of life of each
//! image_users kube/pvc-1 --remedies     # and what can be done about it
//! image_users kube/pvc-1 --watch        # again every second, until interrupted
//! image_users kube/pvc-1 --json
//! ```

mod colour;
mod connect;
mod print;

use std::error::Error;
use std::io::{IsTerminal, stdout};
use std::process::ExitCode;
use std::thread::sleep;
use std::time::Duration;

use clap::Parser;
use rbd::usage::Survey;
use rbd::{ImageSpec, remedy};

#[derive(Parser)]
#[command(about = "Who uses an image?")]
struct Arguments {
    /// [POOL/[NAMESPACE/]]IMAGE
    spec: ImageSpec,
    /// Ask everybody who watches it for a sign of life, and wait so many seconds for it
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "3")]
    ask: Option<u32>,
    /// Say what can be done so that nobody uses it any more, too
    #[arg(long)]
    remedies: bool,
    /// Print it again every second, until interrupted
    #[arg(long)]
    watch: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    cluster: connect::Connect,
}

fn run(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let cluster = arguments.cluster.connect()?;
    let mut survey = Survey::new(&cluster);
    if let Some(seconds) = arguments.ask {
        survey = survey.ask_watchers(Duration::from_secs(seconds.into()));
    }
    let terminal = stdout().is_terminal();
    loop {
        let usage = survey.of(&arguments.spec)?;
        let remedies = if arguments.remedies { usage.remedies() } else { Vec::new() };
        let text = if arguments.json {
            let mut json = serde_json::to_value(&usage)?;
            if arguments.remedies {
                json["remedies"] = serde_json::to_value(remedies)?;
            }
            // A line each time, or one for people.
            if arguments.watch { json.to_string() } else { format!("{json:#}") }
        } else {
            let tree = colour::tree(&usage.to_string(), style);
            if remedies.is_empty() { tree } else { format!("{tree}\n{}", remedy::tree(&remedies)) }
        };
        if !arguments.watch {
            return Ok(print::line(text)?);
        }
        // On a terminal from the top left corner, with nothing below.
        let clear = if terminal && !arguments.json { "\x1b[H\x1b[J" } else { "" };
        if !print::line_to_reader(format_args!("{clear}{text}"))? {
            return Ok(());
        }
        sleep(Duration::from_secs(1));
    }
}

/// What is the matter in red, who is alive in green, who it is in bold.
fn style(line: &str) -> Option<&'static str> {
    const TROUBLE: [&str; 4] = ["silent:", "blocklisted", "watches the image no more", "its watch is lost"];
    match line {
        _ if TROUBLE.iter().any(|trouble| line.contains(trouble)) => Some(colour::RED),
        _ if line.ends_with(", alive") => Some(colour::GREEN),
        _ if line.contains("─ client.") || !line.starts_with(['│', '├', '└', ' ']) => Some(colour::BOLD),
        _ => None,
    }
}

fn main() -> ExitCode {
    connect::exit(run(&Arguments::parse()))
}
