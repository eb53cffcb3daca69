//! Usage as a tree for people.

use std::fmt;

use super::{Client, Mapping, Part, State, Unseen, Usage};
use crate::holder::Holders;
use crate::name::RawName;
use crate::tree;
use crate::watcher::WatcherKind;

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Escaped: names may hold what a terminal obeys.
        write!(f, "{}", RawName::from(self.name().as_str()))?;
        if let Some(id) = &self.image.id {
            write!(f, " (id {id})")?;
        }
        match self.clients.len() {
            0 => f.write_str(" is used by nobody that can be seen")?,
            1 => f.write_str(" is used by 1 client")?,
            many => write!(f, " is used by {many} clients")?,
        }
        let mut clients = self.clients.iter().peekable();
        while let Some(client) = clients.next() {
            client.branch(f, clients.peek().is_none())?;
        }
        if !self.unseen.is_empty() {
            f.write_str("\nnot known")?;
            let mut unseen = self.unseen.iter().peekable();
            while let Some(part) = unseen.next() {
                tree::node(f, "", unseen.peek().is_none(), false, &[part.to_string()])?;
            }
        }
        Ok(())
    }
}

impl Usage {
    /// `POOL/[NAMESPACE/]IMAGE`
    pub fn name(&self) -> String {
        let namespace = self.namespace.as_ref().map(|namespace| format!("{namespace}/")).unwrap_or_default();
        format!("{}/{namespace}{}", self.pool, self.image.name)
    }
}

impl Client {
    fn branch(&self, f: &mut fmt::Formatter<'_>, is_last: bool) -> fmt::Result {
        tree::node(f, "", is_last, !self.mappings.is_empty(), &self.lines())?;
        let indent = tree::below("", is_last);
        let mut mappings = self.mappings.iter().peekable();
        while let Some(mapping) = mappings.next() {
            let is_last = mappings.peek().is_none();
            let holders = mapping.holders.as_ref().filter(|holders| !holders.is_empty());
            tree::node(f, &indent, is_last, holders.is_some(), &mapping.lines())?;
            if let Some(holders) = holders {
                holders.write_branch(f, &tree::below(&indent, is_last))?;
            }
        }
        Ok(())
    }

    /// Who it is, what it is, and what is the matter with it.
    fn lines(&self) -> Vec<String> {
        let mut about = vec![self.place.to_string()];
        match self.kind {
            WatcherKind::Unknown => {}
            kind => about.push(kind.to_string()),
        }
        if self.mirror_daemon {
            about.push("mirror daemon".into());
        }
        about.push(self.access.to_string());
        match self.state {
            State::Alive => about.push("alive".into()),
            State::Silent => about.push("silent: it does not answer".into()),
            State::Unknown => {}
        }
        let mut lines = vec![self.to_string(), about.join(", ")];
        let timeout = self.watch_timeout().map(|timeout| timeout.as_secs());
        match (self.watches.len(), timeout) {
            (0, _) => {}
            (1, Some(seconds)) => lines.push(format!("its watch ends {seconds} s after its last sign of life")),
            (1, None) => lines.push("it has 1 watch".into()),
            (many, Some(seconds)) => {
                lines.push(format!("its {many} watches end {seconds} s after its last sign of life"));
            }
            (many, None) => lines.push(format!("it has {many} watches")),
        }
        lines.extend(self.locks.iter().map(|lock| match lock.watch_cookie() {
            Some(_) if lock.is_alive(&self.watches) => "it holds the lock".into(),
            Some(_) => "it holds the lock, and watches the image no more".into(),
            None => format!("it holds the lock {:?}, taken by hand", lock.cookie),
        }));
        if self.has_lost_its_watch() && !self.is_gone_with_lock() {
            lines.push("its watch is lost: it is mapped to write and does not watch the image".into());
        }
        let refused = self.blocklisted.iter().map(|entry| match Some(entry.address) == self.address {
            true => format!("blocklisted until {}", entry.until),
            false => format!("blocklisted as {entry} until {}", entry.until),
        });
        lines.extend(refused);
        lines
    }
}

impl Mapping {
    fn lines(&self) -> Vec<String> {
        let device = &self.device;
        let mut about = format!("{} ({})", device.node.display(), device.number);
        if let Some(snapshot) = &device.snapshot {
            about.push_str(&format!(", snapshot {snapshot}"));
        } else if !self.is_writable() {
            about.push_str(", read-only");
        }
        let held = match &self.holders {
            None => None,
            Some(holders) if !holders.is_empty() => Some(with_unseen("held by", holders)),
            Some(holders) if holders.is_complete() => Some("held by nothing on this host".into()),
            Some(holders) => Some(with_unseen("held by nothing that could be seen", holders)),
        };
        std::iter::once(about).chain(held).collect()
    }
}

fn with_unseen(text: &str, holders: &Holders) -> String {
    match holders.unseen().len() {
        0 => text.to_owned(),
        1 => format!("{text} (1 part not seen)"),
        many => format!("{text} ({many} parts not seen)"),
    }
}

impl fmt::Display for Unseen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.part, self.reason)
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Locks => "who holds the lock",
            Self::Answers => "who is alive",
            Self::Blocklist => "whom the cluster refuses",
            Self::MirrorDaemons => "which clients are mirror daemons",
            Self::Mappings => "mappings on this host",
            Self::Holders => "who keeps a device busy",
            Self::HostAddresses => "the addresses of this host",
        })
    }
}
