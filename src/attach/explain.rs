//! The kernel's bare errno, and what can be found out about it: `drivers/block/rbd.c` and `net/ceph` say what each
//! errno can mean, the cluster and this host which of it is so.

use super::cause::{Explanation, Support};
use super::check::Facts;
use super::kernel_log::KernelLog;
use super::with_cluster::Attach;
use crate::deadline::Deadline;
use crate::error::{Details, Error};
use crate::image::Image;
use crate::krbd::{MapRequest, Stage};
use crate::lock::Locker;

use Support::{Certain, Likely, Possible};

/// A map that failed, and what can be asked about it in the time that is left.
pub(super) struct Explainer<'a> {
    pub(super) attach: &'a Attach,
    pub(super) request: &'a MapRequest,
    pub(super) facts: &'a Facts,
    pub(super) deadline: Deadline,
}

impl Explainer<'_> {
    /// Adds what may stand behind the errno of a map that failed in the kernel. Other errors stay as they are.
    pub(super) fn explain(&self, error: Error, log: KernelLog) -> Error {
        let Self { request, facts, .. } = *self;
        let (Some(Stage::Write), Some(errno), Details::None) = (error.stage(), error.errno(), error.details()) else {
            return error;
        };
        let mut explanation = Explanation { causes: Vec::new(), kernel_log: log.lines() };
        let found = &mut explanation;
        match errno {
            libc::EPERM => permission(request, found),
            libc::EACCES => found.add(
                if found.logged("auth").is_some() { Likely } else { Possible },
                "the cluster does not know the user, or not with this key",
                found.logged("auth").unwrap_or_default().to_owned(),
                "compare with `ceph auth get client.USER`",
            ),
            libc::ENOENT => found.add(
                if found.logged("does not exist").is_some() { Likely } else { Possible },
                "pool, namespace, image or snapshot were removed since they were looked up, or the kernel's user does not see them",
                found.logged("does not exist").unwrap_or_default().to_owned(),
                "look again",
            ),
            libc::ENXIO => unsupported_features(facts, found),
            libc::EBUSY => self.header_locked(found),
            libc::EROFS => self.lock_kept(found),
            libc::EINVAL => invalid(request, facts, found),
            libc::ERANGE => found.add(
                Possible,
                "the image has more snapshots than this kernel takes (510)",
                "",
                "remove snapshots, or map with Linux 7.0 or later",
            ),
            libc::ESHUTDOWN => self.blocklisted(found),
            libc::ETIMEDOUT => self.no_answer(found),
            libc::ENOMEM => found.add(Possible, "the kernel has no memory or no device number left", "", "unmap what is not used"),
            _ => {}
        }
        if explanation.causes.is_empty() && explanation.kernel_log.is_empty() {
            return error;
        }
        error.with_details(Details::Explanation(Box::new(explanation)))
    }

    fn image(&self) -> Image {
        self.facts.image.until(self.deadline)
    }

    /// Locks that were not taken by the feature `exclusive-lock` keep the kernel out.
    fn header_locked(&self, found: &mut Explanation) {
        let lockers = self.image().lockers().unwrap_or_default();
        let manual: Vec<_> = lockers.iter().filter(|locker| locker.watch_cookie().is_none()).collect();
        if manual.is_empty() {
            found.add(Possible, "the image's header was locked by other means than the feature", "", "try again");
        }
        for locker in manual {
            found.add(
                Certain,
                "the image is locked by hand",
                format!("{locker}"),
                "end its owner's work, then `rbd lock rm` with its id",
            );
        }
    }

    /// An owner that was mapped or opened `exclusive` refuses to hand the lock over.
    fn lock_kept(&self, found: &mut Explanation) {
        let lockers = self.image().lockers().unwrap_or_default();
        let watchers = self.image().watchers().unwrap_or_default();
        for locker in &lockers {
            let alive = if locker.is_alive(&watchers) { "it watches the image" } else { "it does not watch the image" };
            found.add(
                Likely,
                "another client holds the lock and does not hand it over",
                format!("{locker}, {alive}{}", self.here(locker)),
                "unmap or close it there, or map read-only",
            );
        }
        if lockers.is_empty() {
            found.add(Possible, "another client held the lock and has let go since", "", "try again");
        }
    }

    /// Whether a lock's owner is a mapping of this host.
    fn here(&self, locker: &Locker) -> String {
        let devices = self.attach.krbd.list().unwrap_or_default();
        let own = devices.iter().find(|device| device.client_address.is_some_and(|a| a.same_endpoint(&locker.address)));
        own.map(|device| format!(", it is {} on this host", device.node.display())).unwrap_or_default()
    }

    /// A shared kernel client that is on the blocklist poisons every new map with equal options.
    fn blocklisted(&self, found: &mut Explanation) {
        let list = self.attach.cluster.until(self.deadline).blocklist().unwrap_or_default();
        let devices = self.attach.krbd.list().unwrap_or_default();
        let mut named = Vec::new();
        for entry in &list {
            let of = |device: &&crate::krbd::Device| device.client_address.is_some_and(|address| entry.hits(&address));
            named.extend(devices.iter().find(of).map(|device| format!("{entry} of {}", device.node.display())));
        }
        let support = if named.is_empty() { Possible } else { Certain };
        found.add(
            support,
            "the kernel client that this map would share is on the cluster's blocklist",
            named.join(", "),
            "map with the option noshare, or unmap all devices of that client first",
        );
    }

    fn no_answer(&self, found: &mut Explanation) {
        if let Some(line) = found.logged("socket closed").map(str::to_owned) {
            found.add(
                Likely,
                "the kernel speaks another messenger protocol than the monitors' addresses that it got",
                line,
                "give the option ms_mode that fits the monitors",
            );
        }
        if self.request.map_options().get("lock_timeout").is_some() {
            for locker in self.image().lockers().unwrap_or_default() {
                found.add(
                    Likely,
                    "another client kept the lock for lock_timeout",
                    locker.to_string(),
                    "unmap it there",
                );
            }
        }
        let answers = self.attach.cluster.until(self.deadline).monitors();
        let (evidence, support) = match answers {
            Ok(_) => ("they answer this program", Possible),
            Err(_) => ("they do not answer this program either", Likely),
        };
        found.add(support, "the kernel did not reach the monitors", evidence, "look at the network of this host");
        found.add(
            Possible,
            "an OSD of the image's pool does not answer",
            "",
            "look at `ceph health`; the option osd_request_timeout bounds the wait",
        );
    }
}

fn permission(request: &MapRequest, found: &mut Explanation) {
    // `get_secret` in `net/ceph/ceph_common.c`.
    for (text, cause) in [
        ("key not found", "the kernel did not find the user's key"),
        ("expired key", "the user's key in the kernel's keyring has expired"),
        ("revoked key", "the user's key in the kernel's keyring was revoked"),
    ] {
        if let Some(line) = found.logged(text).map(str::to_owned) {
            found.add(Certain, cause, line, "give the key with the request");
            return;
        }
    }
    let read_only = request.map_options().is_read_only();
    found.add(
        Likely,
        "the user's capabilities do not allow it",
        if read_only { "" } else { "it is mapped to write" },
        if read_only {
            "give the user `profile rbd-read-only` on the pool"
        } else {
            "give the user `profile rbd` on the pool, or map read-only"
        },
    );
}

fn unsupported_features(facts: &Facts, found: &mut Explanation) {
    match facts.kernel {
        Some(mask) => {
            let lacking = facts.features.unsupported_by(mask);
            found.add(
                Likely,
                "the kernel lacks features of the image",
                format!("can be disabled: {}; can not: {}", lacking.disable, lacking.permanent),
                "disable them, or map with a newer kernel",
            );
        }
        None => found.add(
            Likely,
            "the kernel lacks features of the image, and is too old to say which",
            format!("the image has {}", facts.features),
            "disable all but layering",
        ),
    }
}

fn invalid(request: &MapRequest, facts: &Facts, found: &mut Explanation) {
    for text in ["Unknown parameter", "bad option", "bad image options", "parse"] {
        if let Some(line) = found.logged(text).map(str::to_owned) {
            found.add(Likely, "this kernel does not know an option", line, "leave it out");
            break;
        }
    }
    if found.causes.is_empty() {
        found.add(
            Possible,
            "this kernel is too old for an option",
            format!("options {}; features {}", request.map_options(), facts.features),
            "leave options out, one by one",
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::krbd::Credentials;

    #[test]
    fn a_key_that_the_kernel_could_not_use_is_the_cause_of_its_eperm() {
        let monitors = "192.0.2.1".parse().unwrap();
        let request = MapRequest::new(monitors, Credentials::preloaded("kube"), "kube/pvc-1".parse().unwrap());
        let cause = |line: &str| {
            let mut found = Explanation { kernel_log: vec![line.to_owned()], ..Explanation::default() };
            permission(&request, &mut found);
            (found.causes[0].support, found.causes[0].cause.clone())
        };
        let is = |support, text: &str| (support, text.to_owned());
        let not_found = "libceph: Failed due to key not found: client.kube";
        assert_eq!(cause(not_found), is(Certain, "the kernel did not find the user's key"));
        let revoked = "libceph: Failed due to revoked key: client.kube";
        assert_eq!(cause(revoked), is(Certain, "the user's key in the kernel's keyring was revoked"));
        assert_eq!(cause("libceph: mon0 session established"), is(Likely, "the user's capabilities do not allow it"));
    }
}
