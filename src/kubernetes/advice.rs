//! What is behind a message, what to check and what to change.

use std::fmt;

use serde::Serialize;

use super::fuse::{FuseComplaint, FuseMount};
use super::message::{Failure, FailureMessage};
use crate::feature::Unsupported;
use crate::name::ImageSpec;

/// The answer to a message.
///
/// `Display` gives a few lines of text. What a person types in a shell is in backquotes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Advice {
    /// What the message means.
    pub cause: String,
    /// What to look at, in this order.
    pub check: Vec<String>,
    /// What to change, the best first; each by itself is enough unless it says otherwise.
    pub change: Vec<String>,
    /// The image to ask the cluster about.
    pub image: Option<ImageSpec>,
}

impl FailureMessage {
    /// What is behind the message, what to check and what to change, with the values that are in it.
    pub fn explain(&self) -> Advice {
        let volume = self.volume.as_deref().unwrap_or("VOLUME");
        let advice = match &self.failure {
            Failure::ImageInUse { watchers, .. } => in_use(&self.image_or("the image"), watchers.len()),
            Failure::MultiAttach { pods, pods_elsewhere, nodes, .. } => {
                multi_attach(volume, self.node.as_deref(), pods, *pods_elsewhere, nodes)
            }
            Failure::TimedOut { pod, unmounted, unattached, unprocessed } => {
                timed_out(pod.as_deref(), unmounted, unattached, unprocessed)
            }
            Failure::MapFailed { errno, output, .. } => map_failed(&self.image_or("POOL/IMAGE"), *errno, output),
            Failure::FeatureMismatch { features, .. } => feature_mismatch(&self.image_or("POOL/IMAGE"), features),
            Failure::ClusterFeatures { missing } => cluster_features(*missing),
            Failure::UnmapFailed { device, errno, .. } => {
                let device = device.as_ref().map_or("/dev/rbdN".to_owned(), |device| device.display().to_string());
                unmap_failed(&device, *errno)
            }
            Failure::FuseMount(mount) => fuse(mount, volume),
            Failure::NotRecognised => Advice::new("This library does not know this message.")
                .check("the other events of the pod: `kubectl describe pod POD`")
                .check("the log of kubelet, and of the plugin's pod, on the pod's node"),
        };
        Advice { image: self.image().cloned(), ..advice }
    }

    fn image_or(&self, else_: &str) -> String {
        self.image().map_or(else_.to_owned(), ToString::to_string)
    }
}

impl Advice {
    fn new(cause: impl Into<String>) -> Self {
        Self { cause: cause.into(), check: Vec::new(), change: Vec::new(), image: None }
    }

    fn check(mut self, what: impl Into<String>) -> Self {
        self.check.push(what.into());
        self
    }

    fn change(mut self, what: impl Into<String>) -> Self {
        self.change.push(what.into());
        self
    }
}

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cause: {}", self.cause)?;
        for (title, list) in [("check", &self.check), ("change", &self.change)] {
            if !list.is_empty() {
                write!(f, "\n{title}:")?;
                list.iter().try_for_each(|what| write!(f, "\n  - {what}"))?;
            }
        }
        Ok(())
    }
}

fn in_use(image: &str, watchers: usize) -> Advice {
    let seen = match watchers {
        0 => "The message does not say who.".to_owned(),
        1 => "The message names one watcher.".to_owned(),
        many => format!("The message names {many} watchers."),
    };
    Advice::new(format!(
        "{image} has a watcher still: a client that has it open, or one that died less than the watch's time-out ago \
         (30 s by default). {seen}"
    ))
    .check(format!("who watches it: `rbd status {image}`; the address is that of a node or of a pod on it"))
    .check(format!("on that node, whether it is mapped, and what keeps it busy: `why_busy /dev/rbd/{image}`"))
    .check("whether an rbd-mirror daemon is among the watchers: it is no reader of the volume")
    .change("let the old pod end, and wait until its node has unmapped the image")
    .change("where its node is alive: unmount what is left there and unmap the device")
    .change(
        "where its node is dead: put its client on the blocklist, with address, port and nonce, then break its lock",
    )
}

fn multi_attach(volume: &str, node: Option<&str>, pods: &[String], elsewhere: u32, nodes: &[String]) -> Advice {
    let holder = match (pods, elsewhere, nodes) {
        ([], 0, []) => "another node".to_owned(),
        ([], 0, nodes) => format!("node {}", nodes.join(", ")),
        ([], many, _) => format!("{many} pods of other namespaces"),
        (pods, 0, []) => format!("pod {}", pods.join(", ")),
        (pods, 0, nodes) => format!("pod {} on node {}", pods.join(", "), nodes.join(", ")),
        (pods, many, _) => format!("pod {} and {many} pods of other namespaces", pods.join(", ")),
    };
    let here = node.map_or(String::new(), |node| format!(" (here {node})"));
    let pod = pods.first().map_or("POD", String::as_str);
    let pod = match pod.split_once('/') {
        Some((namespace, pod)) => format!("-n {namespace} {pod}"),
        None => pod.to_owned(),
    };
    Advice::new(format!(
        "{volume} is used by {holder}, which must let go first. With ReadWriteOnce one node has the volume; the new \
         pod was put on another{here}. A rolling update starts the new pod before the old one ends, so both wait."
    ))
    .check(format!("where the old pod runs and why it has not ended: `kubectl get pod {pod} -o wide`"))
    .check(format!(
        "which node has the volume: `kubectl get volumeattachment -o wide | grep {volume}`; it may be there still \
         after the pod has gone, for up to six minutes where the node is silent"
    ))
    .change("Deployment: strategy RollingUpdate with maxSurge 0 and maxUnavailable 1, so that the old pod goes first")
    .change("Deployment: strategy Recreate, which ends all old pods first")
    .change("StatefulSet with volumeClaimTemplates, where each replica needs a volume of its own")
    .change(
        "ReadWriteMany, where all replicas share the data: CephFS, or rbd with volumeMode Block and a program that \
         coordinates its writers",
    )
    .change(format!("now, by hand: `kubectl delete pod {pod}`"))
    .change(
        "where the old node is dead: fence its Ceph client, then taint the node with \
         node.kubernetes.io/out-of-service=nodeshutdown:NoExecute",
    )
}

fn timed_out(pod: Option<&str>, unmounted: &[String], unattached: &[String], unprocessed: &[String]) -> Advice {
    let names = |names: &[String]| if names.is_empty() { "the volumes".to_owned() } else { names.join(", ") };
    let whose = pod.map_or(String::new(), |pod| format!(" of pod {pod}"));
    let mut advice = Advice::new(format!(
        "kubelet waited about two minutes for {}{whose} and will try again. This message has no reason in it: another \
         event has.",
        names(unmounted)
    ))
    .check("the other events of the pod, above this one: `kubectl describe pod POD`")
    .check("the log of the volume plugin's pod on that node, for the same volume");
    let waiting: Vec<String> = unattached.iter().filter(|name| unmounted.contains(name)).cloned().collect();
    if !waiting.is_empty() {
        advice = advice.check(format!(
            "whether {} is attached: `kubectl get volumeattachment`; older kubelets list all volumes as unattached",
            waiting.join(", ")
        ));
    }
    if !unprocessed.is_empty() {
        advice = advice.check(format!(
            "whether the claim behind {} exists and is bound: `kubectl get pvc`",
            unprocessed.join(", ")
        ));
    }
    advice
}

fn feature_mismatch(image: &str, features: &Unsupported) -> Advice {
    let Unsupported { disable, permanent } = features;
    let advice = match (disable.is_empty(), permanent.is_empty()) {
        (true, true) => {
            Advice::new(format!("The node's kernel lacks features of {image}. The message does not say which."))
                .check(format!("`rbd info {image}`, and /sys/bus/rbd/supported_features on the node"))
        }
        (_, false) => Advice::new(format!(
            "The node's kernel lacks {permanent}, which {image} has for good: this kernel can never map it."
        )),
        (false, true) => Advice::new(format!("The node's kernel lacks {disable}, which {image} has.")),
    };
    let advice = match (disable.is_empty(), permanent.is_empty()) {
        (_, false) => {
            advice.change("a newer kernel on the node, or copy the data to an image made without these features")
        }
        (false, true) => {
            let names: Vec<_> = disable.names().collect();
            advice
                .change(format!("`rbd feature disable {image} {}`", names.join(" ")))
                .change("a newer kernel on the node: Linux 5.3 knows all but journaling")
        }
        (true, true) => advice.change(format!("`rbd feature disable {image} FEATURE…`")),
    };
    advice.change("for volumes to come: imageFeatures in the StorageClass, or rbd_default_features in the cluster")
}

fn cluster_features(missing: Option<u64>) -> Advice {
    let bits = missing.map_or(String::new(), |bits| format!(" (bits {bits:#x})"));
    Advice::new(format!(
        "The node's kernel lacks what the cluster demands of every client{bits}, mostly newer CRUSH tunables. It is no \
         matter of the image."
    ))
    .check(
        "the kernel: `uname -r`; the cluster: `ceph osd crush show-tunables`, `ceph osd get-require-min-compat-client`",
    )
    .change("a newer kernel on the node")
    .change("older tunables, which moves data: `ceph osd crush tunables hammer`")
}

fn map_failed(image: &str, errno: Option<i32>, output: &[String]) -> Advice {
    let advice = Advice::new(format!(
        "`rbd map` failed{}{}",
        errno.map_or(String::new(), |errno| format!(" with errno {errno}: ")),
        errno.map_or(".", meaning)
    ));
    let advice = match errno {
        Some(libc::ENXIO) => advice
            .check(format!("`rbd info {image}`, and /sys/bus/rbd/supported_features on the node"))
            .change(format!("`rbd feature disable {image} FEATURE…`, all that the kernel lacks")),
        Some(libc::ENOENT) => advice
            .check(format!("`rbd info {image}`, and on the node `lsmod | grep rbd`"))
            .change("give the option ms_mode where the monitors speak protocol v2 only"),
        Some(libc::EPERM | libc::EACCES) => advice
            .check("the user's key in the Secret: its data is the key in base64 once more, not the key itself")
            .change("give the user the capabilities `mon 'profile rbd' osd 'profile rbd pool=POOL'`"),
        Some(libc::ESHUTDOWN) => advice
            .check("`ceph osd blocklist ls`, for the node's address")
            .change("unmap all images of that client on the node, or map with the option noshare")
            .change("`ceph osd blocklist rm ADDRESS`, once nothing of that client is left"),
        Some(libc::ETIMEDOUT | libc::EIO) => advice
            .check("from the node, the monitors' ports 3300 and 6789, and `ceph health`")
            .change("let the node reach the monitors and OSDs, and give the option ms_mode that fits the monitors"),
        Some(libc::EROFS | libc::EBUSY) => advice
            .check(format!("`rbd lock ls {image}` and `rbd status {image}`"))
            .change("unmap it where the lock is held, or break the lock of a client that is gone"),
        Some(libc::EINVAL) => advice
            .check("the map options: each must be known to this kernel, and some need the image's exclusive-lock")
            .change("leave map options out, one by one"),
        _ => advice,
    };
    let advice = advice.check("what the kernel logged on the node: `dmesg | tail`");
    match output.last() {
        Some(line) => advice.check(format!("what rbd said: {line}")),
        None => advice,
    }
}

/// What the kernel's driver means by an errno (`drivers/block/rbd.c`).
fn meaning(errno: i32) -> &'static str {
    match errno {
        libc::ENXIO => "the kernel lacks features of the image.",
        libc::ENOENT => "the pool, the image or the snapshot does not exist, or the rbd module is not loaded.",
        libc::EPERM | libc::EACCES => {
            "the key is not valid, the user's capabilities do not allow it, or the plugin is not privileged."
        }
        libc::ESHUTDOWN => "the node's kernel client is on the cluster's blocklist.",
        libc::ETIMEDOUT | libc::EIO => "the node did not reach the monitors or an OSD in time.",
        libc::EROFS | libc::EBUSY => "another client holds the image's lock.",
        libc::EINVAL => "the kernel does not accept the request, mostly an option.",
        _ => "see what the kernel logged.",
    }
}

fn unmap_failed(device: &str, errno: Option<i32>) -> Advice {
    match errno {
        Some(libc::EBUSY) => Advice::new(format!(
            "{device} is in use on its node still: a mount, perhaps in another mount namespace, an open file, or a device \
             stacked on it."
        ))
        .check(format!("who it is, on the node, in every mount namespace: `why_busy {device}`"))
        .change("end that process, unmount there, or close the stacked device; then kubelet's next try succeeds")
        .change("mount host paths into monitoring pods with mountPropagation HostToContainer, so that unmounts reach them")
        .change(format!(
            "as the last resort, with loss of what was not written: `rbd unmap -o force {device}`"
        )),
        Some(libc::EINVAL) => Advice::new(format!("{device} is not mapped: it was unmapped already."))
            .check("what is mapped on the node: `rbd device list`"),
        errno => Advice::new(format!(
            "{device} was not unmapped{}",
            errno.map_or(".".to_owned(), |errno| format!(" (errno {errno})."))
        ))
        .check("what the kernel logged on the node: `dmesg | tail`")
        .check("whether the cluster answers: an unmap waits for writes that are under way"),
    }
}

fn fuse(mount: &FuseMount, volume: &str) -> Advice {
    let FuseMount { tool, options, .. } = mount;
    match &mount.complaint {
        FuseComplaint::NoSpace | FuseComplaint::NoCacheDirectory => {
            let directory = options.cache_directory();
            let directory = directory.display();
            let (least, most) = tool.demand(options);
            let demand =
                if least == most { format!("{most} MiB") } else { format!("{least} MiB, older releases {most} MiB,") };
            Advice::new(format!(
                "{tool} wants {demand} free in {directory} on the node, or {directory} does not exist: it says the same \
                 of both."
            ))
            .check(format!(
                "where {tool} runs, on the node or in its launcher's container there: `df -BM {directory}`"
            ))
            .check(format!("multipart_size and ensure_diskfree are in MiB: the message has `{options}`"))
            .change(format!(
                "remove what earlier mounts have left in {directory}: del_cache empties it only after this check"
            ))
            .change("another directory, on a larger disk: use_cache")
            .change("a smaller ensure_diskfree, or a smaller multipart_size or parallel_count")
            .change(format!(
                "the source of a PersistentVolume cannot be edited: {volume} must be replaced by one with the corrected \
                 options"
            ))
        }
        FuseComplaint::Other(said) => Advice::new(match said.as_str() {
            "" => format!("{tool} did not mount. The message does not say why."),
            said => format!("{tool} did not mount: {said}"),
        })
        .check(format!("the key in the Secret, the bucket {} and the URL", mount.bucket.as_deref().unwrap_or("BUCKET")))
        .check(format!("the log of {tool} on the node, in the system's log")),
    }
}
