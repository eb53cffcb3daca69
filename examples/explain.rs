//! Explains what kubelet and the attach controller print: a message, `kubectl describe pod`, or a log in; what is behind
//! it, what to check and what to change out.
//!
//! ```text
//! kubectl describe pod web-0 | explain
//! explain 'rbd image kube/pvc-1 is still being used' --ask --id admin
//! ```
//!
//! With `--ask` it goes on to the cluster and says who has the image open. Exit status: 0 where every message is known, 2
//! where one is not or there is none.

#[cfg(feature = "librados")]
#[allow(dead_code)] // It ends with one of three statuses, not as the others do.
mod connect;
mod print;

use std::error::Error;
use std::io::{IsTerminal, Read};
use std::process::ExitCode;

use clap::Parser;
use rbd::kubernetes::FailureMessage;

#[derive(Parser)]
#[command(about = "Explain what kubelet says of a volume")]
struct Arguments {
    /// The message [default: standard input]
    message: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Ask the cluster who uses the image that a message names
    #[cfg(feature = "librados")]
    #[arg(long)]
    ask: bool,
    #[cfg(feature = "librados")]
    #[command(flatten)]
    cluster: connect::Connect,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(2),
        Err(error) => {
            eprintln!("explain: {error:#}");
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
    let messages = FailureMessage::parse_all(&text);
    if messages.is_empty() && !arguments.json {
        print::line("There is no message of kubelet's about a volume in this text.")?;
    }
    let mut answers = Vec::new();
    for message in &messages {
        let advice = message.explain();
        let users = arguments.users(&advice)?;
        if arguments.json {
            answers.push(serde_json::json!({ "message": message, "advice": advice, "users": users }));
            continue;
        }
        print::line(format_args!("{message}\n{advice}"))?;
        for user in &users {
            print::line(user)?;
        }
        print::line("")?;
    }
    if arguments.json {
        print::line(serde_json::to_string_pretty(&answers)?)?;
    }
    Ok(!messages.is_empty() && messages.iter().all(FailureMessage::is_recognised))
}

fn read_standard_input() -> Result<String, Box<dyn Error>> {
    if std::io::stdin().is_terminal() {
        eprintln!("explain: paste the message, then press Ctrl-D");
    }
    let mut bytes = Vec::new();
    std::io::stdin().read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

impl Arguments {
    /// Who has the image open, where that was asked for.
    #[cfg(feature = "librados")]
    fn users(&self, advice: &rbd::kubernetes::Advice) -> Result<Vec<String>, Box<dyn Error>> {
        let Some(spec) = advice.image.as_ref().filter(|_| self.ask) else { return Ok(Vec::new()) };
        let image = self.cluster.connect()?.open_read_only(spec)?;
        let watchers = image.watchers()?;
        let lockers = image.lockers()?;
        let mut users = vec![format!("now: {} has {} watchers", spec, watchers.len())];
        users.extend(watchers.iter().map(|watcher| {
            let holds = lockers.iter().any(|locker| locker.is_alive(std::slice::from_ref(watcher)));
            format!("  - {watcher} ({}){}", watcher.kind(), if holds { ", holds the lock" } else { "" })
        }));
        Ok(users)
    }

    #[cfg(not(feature = "librados"))]
    fn users(&self, _: &rbd::kubernetes::Advice) -> Result<Vec<String>, Box<dyn Error>> {
        Ok(Vec::new())
    }
}
