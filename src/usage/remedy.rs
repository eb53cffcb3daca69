//! From who uses an image to what frees it.

use super::{Client, Place, State, Usage};
use crate::error::Result;
use crate::remedy::{Action, By, Release, Released, Remedy, Risk, remedies};

impl Usage {
    /// What can be done so that nobody uses the image any more, in the order of safety: first this host's mappings are
    /// closed from the top down and unmapped, and silent watches waited for; then what people must do elsewhere; last
    /// what loses something.
    ///
    /// Clients that are alive are not offered for fencing, and this program's own handles are its own to close. Who was
    /// not [asked](super::Survey::ask_watchers) may be either.
    pub fn remedies(&self) -> Vec<Remedy> {
        let mut found: Vec<Remedy> = self.mappings().flat_map(of_mapping).collect();
        found.extend(self.clients.iter().flat_map(of_client));
        // What is done to one device is in the order in which it must be, persons' part included.
        let rank = |remedy: &Remedy| match remedy.risk {
            Risk::Lossy => 2,
            Risk::ForAPerson if remedy.on.is_none() => 1,
            _ => 0,
        };
        found.sort_by_key(rank);
        found
    }

    /// Carries out those that concern this host, one mapping after the other: frees each device as far as the policy of
    /// `release` allows, and unmaps it. A mapping that has changed since is not touched.
    ///
    /// # Errors
    ///
    /// Of each mapping: those of [`Release::run`].
    pub fn release(&self, release: &Release) -> Vec<Result<Released>> {
        self.mappings().map(|mapping| release.run(&mapping.device)).collect()
    }
}

fn of_mapping(mapping: &super::Mapping) -> Vec<Remedy> {
    match &mapping.holders {
        Some(holders) => remedies(holders, Some(&mapping.device)),
        None => {
            let action = Action::Unmap(Box::new(mapping.device.clone()));
            vec![Remedy { action, risk: Risk::Safe, by: By::Library, on: Some(mapping.device.number) }]
        }
    }
}

fn of_client(client: &Client) -> Vec<Remedy> {
    let remedy = |action, risk, by| Remedy { action, risk, by, on: None };
    let mut found = Vec::new();
    for lock in client.locks.iter().filter(|lock| !lock.is_alive(&client.watches)) {
        let action = Action::BreakLock(lock.clone());
        if client.is_blocklisted() {
            // It can write nothing any more.
            found.push(remedy(action, Risk::Safe, By::Library));
        } else if lock.watch_cookie().is_none() {
            // Whether its holder is done with the image cannot be told.
            found.push(remedy(action, Risk::ForAPerson, By::Library));
        }
    }
    if client.place == Place::ThisProgram || client.is_blocklisted() {
        return found;
    }
    // Its mappings here are closed here.
    let elsewhere = client.mappings.is_empty() && !client.watches.is_empty();
    if client.state == State::Silent {
        found.extend(client.watches.iter().map(|watch| remedy(Action::WaitForWatch(*watch), Risk::Safe, By::Library)));
    } else if elsewhere {
        let action = Action::CloseThere { client: client.to_string(), place: client.place.to_string() };
        found.push(remedy(action, Risk::ForAPerson, By::Hand));
    }
    let in_doubt = match client.state {
        State::Alive => false,
        State::Silent => true,
        State::Unknown => elsewhere || client.is_gone_with_lock(),
    };
    if let Some(address) = client.address.filter(|_| in_doubt) {
        let action = Action::Fence {
            address,
            watches: client.watches.clone(),
            devices: client.mappings.iter().map(|mapping| mapping.device.clone()).collect(),
            this_host: client.is_local(),
        };
        found.push(remedy(action, Risk::Lossy, By::Library));
    }
    found
}
