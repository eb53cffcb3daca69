//! Which container and pod a process belongs to, from the text of `/proc/PID/cgroup` (`cgroups(7)`).

/// What a cgroup path says: the runtimes write the container's id into it, kubelet the pod's.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Cgroup {
    pub(super) container: Option<String>,
    pub(super) pod: Option<String>,
}

impl Cgroup {
    /// From the lines `ID:CONTROLLERS:PATH`. With cgroup v1 some hierarchies may know less than others; the first that
    /// names a container or a pod counts.
    pub(super) fn parse(text: &[u8]) -> Self {
        let text = String::from_utf8_lossy(text);
        let paths = text.lines().filter_map(|line| line.splitn(3, ':').nth(2));
        paths.map(Self::of_path).find(|found| *found != Self::default()).unwrap_or_default()
    }

    fn of_path(path: &str) -> Self {
        let mut found = Self::default();
        // The colon parts containerd's form without systemd's escapes: `SLICE:cri-containerd:ID`.
        for part in path.split(['/', ':']) {
            if let Some(pod) = pod_uid(part) {
                found = Self { container: None, pod: Some(pod) };
            } else if let Some(container) = container_id(part) {
                // The innermost counts: a container engine can run inside a pod.
                found.container = Some(container);
            }
        }
        found
    }
}

/// `podUID`, and with systemd `kubepods-burstable-podUID.slice`, the UID's dashes as underscores there.
fn pod_uid(part: &str) -> Option<String> {
    let part = part.strip_suffix(".slice").unwrap_or(part);
    let uid = if part.contains("kubepods") { part.rsplit_once("-pod")?.1 } else { part.strip_prefix("pod")? };
    let uid = uid.replace('_', "-");
    // A static pod's UID is a hash without dashes.
    let is_uid = uid.len() >= 32 && uid.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    is_uid.then_some(uid)
}

/// A runtime's 64 hexadecimal digits, alone or as `RUNTIME-ID.scope`; or the name that LXC gives.
fn container_id(part: &str) -> Option<String> {
    if let Some(name) = part.strip_prefix("lxc.payload.") {
        return Some(name.to_owned());
    }
    let part = part.strip_suffix(".scope").unwrap_or(part);
    // crio-conmon-ID is the monitor beside the container, which is not in it.
    if part.contains("conmon") {
        return None;
    }
    let id = part.rsplit_once('-').map_or(part, |(_, id)| id);
    (id.len() == 64 && id.bytes().all(|byte| byte.is_ascii_hexdigit())).then(|| id.to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ID: &str = "3f4e1c0a9b8d7e6f5a4b3c2d1e0f9a8b7c6d5e4f3a2b1c0d9e8f7a6b5c4d3e2f";
    const UID: &str = "0b9e6f3c-5a39-4f7e-9a53-1f7f0a3c2b11";

    #[test]
    fn container_and_pod_are_found_in_the_paths_of_every_runtime() {
        let systemd = UID.replace('-', "_");
        let (both, container, pod) = ((true, true), (true, false), (false, true));
        for (path, (has_container, has_pod)) in [
            (format!("/kubepods/burstable/pod{UID}/{ID}"), both),
            (format!("/kubepods/pod{UID}/{ID}"), both),
            (format!("/kubepods.slice/kubepods-pod{systemd}.slice/cri-containerd-{ID}.scope"), both),
            (format!("/kubepods.slice/x.slice/kubepods-besteffort-pod{systemd}.slice/crio-{ID}.scope"), both),
            (format!("/kubepods.slice/kubepods-burstable-pod{systemd}.slice:cri-containerd:{ID}"), both),
            (format!("/kubelet.slice/kubelet-kubepods-pod{systemd}.slice/cri-containerd-{ID}.scope"), both),
            (format!("/kubelet/kubepods/pod{UID}/docker-{ID}.scope/init"), both),
            (format!("/../../kubepods/besteffort/pod{UID}/{ID}"), both),
            (format!("/kubepods.slice/kubepods-burstable-pod{systemd}.slice"), pod),
            (format!("/kubepods.slice/kubepods-pod{systemd}.slice/crio-conmon-{ID}.scope"), pod),
            (format!("/docker/{ID}"), container),
            (format!("/system.slice/docker-{ID}.scope"), container),
            (format!("/machine.slice/libpod-{ID}.scope/container"), container),
        ] {
            let found = Cgroup::parse(format!("0::{path}\n").as_bytes());
            assert_eq!(found.container.as_deref(), has_container.then_some(ID), "{path}");
            assert_eq!(found.pod.as_deref(), has_pod.then_some(UID), "{path}");
        }
    }

    #[test]
    fn an_lxc_container_has_a_name() {
        assert_eq!(Cgroup::parse(b"0::/lxc.payload.web/init.scope\n").container.as_deref(), Some("web"));
    }

    #[test]
    fn a_process_of_the_host_is_in_neither() {
        for path in ["/", "/system.slice/ceph-osd@3.service", "/user.slice/user-0.slice/session-1.scope", "/podman"] {
            assert_eq!(Cgroup::parse(format!("0::{path}\n").as_bytes()), Cgroup::default(), "{path}");
        }
    }

    #[test]
    fn with_cgroup_v1_the_first_hierarchy_that_knows_counts() {
        let text = format!("12:cpu,cpuacct:/\n11:name=systemd:/docker/{ID}\n0::/\n");
        assert_eq!(Cgroup::parse(text.as_bytes()).container.as_deref(), Some(ID));
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in proptest::collection::vec(any::<u8>(), 0..200)) {
            Cgroup::parse(&text);
        }
    }
}
