//! Reading one message. The texts are those of Kubernetes' `pkg/volume` and `pkg/controller/volume/attachdetach`, of
//! its rbd plugin, of ceph-csi, and of `rbd` itself.

use std::path::PathBuf;

use super::flat::{Flat, one_line};
use super::fuse::FuseMount;
use super::message::{Failure, FailureMessage};
use crate::feature::Features;
use crate::name::ImageSpec;

pub(super) fn message(text: &str) -> FailureMessage {
    let flat = Flat::new(text);
    FailureMessage {
        failure: failure(&flat),
        volume: flat.between("for volume \"", "\"").map(str::to_owned),
        node: flat.between("from node \"", "\"").or(flat.between("on node \"", "\"")).map(str::to_owned),
        text: without_keys(&flat.one_line()),
    }
}

/// The most telling first: a message of a time-out may quote one of the others.
fn failure(flat: &Flat) -> Failure {
    FuseMount::read(flat)
        .map(Failure::FuseMount)
        .or_else(|| cluster_features(flat))
        .or_else(|| feature_mismatch(flat))
        .or_else(|| image_in_use(flat))
        .or_else(|| unmap_failed(flat))
        .or_else(|| map_failed(flat))
        .or_else(|| multi_attach(flat))
        .or_else(|| timed_out(flat))
        .unwrap_or(Failure::NotRecognised)
}

fn spec(text: &str) -> Option<ImageSpec> {
    text.parse().ok()
}

fn image_in_use(flat: &Flat) -> Option<Failure> {
    // What comes after may be cut off.
    let image = flat.nearest_between("rbd image ", " is still")?;
    let line = |at: &usize| flat.text()[*at..].split_whitespace().take(3).collect::<Vec<_>>().join(" ").parse().ok();
    Some(Failure::ImageInUse {
        image: spec(image),
        watchers: flat.places("watcher=").iter().filter_map(line).collect(),
    })
}

/// `feature set mismatch, my 40106b84a842a42 < server's 40106b84a842a52, missing 10`
fn cluster_features(flat: &Flat) -> Option<Failure> {
    let mut words = flat.after("feature set mismatch, my ")?.split_whitespace().skip_while(|word| *word != "missing");
    let hex = |bits: &str| u64::from_str_radix(bits.trim_end_matches([',', '.']).trim_start_matches("0x"), 16).ok();
    Some(Failure::ClusterFeatures { missing: words.nth(1).and_then(hex) })
}

fn feature_mismatch(flat: &Flat) -> Option<Failure> {
    if let Some(names) = flat.after("following immutable features are unsupported by the kernel:") {
        let names = names.split(['.', ',', '\n']).next().unwrap_or_default();
        return Some(Failure::mismatch(mapped_image(flat), Features::empty(), features(names.split_whitespace())));
    }
    if let Some(hint) = flat.after("unsupported by the kernel with \"rbd feature disable") {
        let hint = hint.split('"').next().unwrap_or_default();
        let mut words = hint.split_whitespace();
        let image = words.next().and_then(spec).or_else(|| mapped_image(flat));
        return Some(Failure::mismatch(image, features(words), Features::empty()));
    }
    if let Some(bits) = flat.after("image uses unsupported features:") {
        let bits = bits.split_whitespace().next().and_then(|word| Features::parse_kernel_mask(word).ok());
        // All that the kernel could do without is among those that can be disabled.
        let unsupported = bits.unwrap_or_default().unsupported_by(Features::empty());
        return Some(Failure::FeatureMismatch { image: mapped_image(flat), features: unsupported });
    }
    flat.has("feature set mismatch")
        .then(|| Failure::mismatch(mapped_image(flat), Features::empty(), Features::empty()))
}

/// Names of features; what is none is left out.
fn features<'a>(words: impl Iterator<Item = &'a str>) -> Features {
    words.filter_map(|word| word.trim_matches(['.', ',', '"']).parse::<Features>().ok()).collect()
}

fn map_failed(flat: &Flat) -> Option<Failure> {
    if !flat.has("rbd: map failed") && !flat.has("rbd: sysfs write failed") {
        return None;
    }
    let errno = flat.number_after("map failed: (").or_else(|| flat.number_after("exit status "));
    let output = flat.after("rbd output:").or_else(|| flat.after("rbd error output:")).unwrap_or_default();
    let lines = output.lines().map(|line| without_keys(&one_line(line))).filter(|line| !line.is_empty());
    Some(Failure::MapFailed { image: mapped_image(flat), errno, output: lines.collect() })
}

/// The image among the arguments of `rbd map`, as ceph-csi prints them: `[… map POOL/IMAGE --device-type krbd …]`.
fn mapped_image(flat: &Flat) -> Option<ImageSpec> {
    let arguments = flat.after("rbd args: [")?.split(']').next()?;
    let mut words = arguments.split_whitespace().skip_while(|word| *word != "map");
    words.nth(1).and_then(spec)
}

fn unmap_failed(flat: &Flat) -> Option<Failure> {
    let in_tree = flat.has("failed to unmap device");
    if !in_tree && !flat.has("unmap failed") && !flat.has("error unmapping") {
        return None;
    }
    // `rbd: failed to unmap device /dev/rbd0, error exit status 16`, `rbd: unmap for spec (/dev/rbd0) failed`.
    let device = device(flat);
    let arguments = flat.after("rbd args: [").and_then(|rest| rest.split(']').next());
    let mut words = arguments.unwrap_or_default().split_whitespace().skip_while(|word| *word != "unmap");
    Some(Failure::UnmapFailed {
        image: words.nth(1).filter(|word| !word.starts_with("/dev/")).and_then(spec),
        device,
        errno: flat.number_after("unmap failed: (").or_else(|| flat.number_after("exit status ")),
    })
}

fn multi_attach(flat: &Flat) -> Option<Failure> {
    if !flat.has("Multi-Attach error") && !flat.has("already exclusively attached to") {
        return None;
    }
    const ELSEWHERE: &str = " pod(s) in different namespaces";
    let mut nodes = Vec::new();
    let mut pods = Vec::new();
    let mut pods_elsewhere = 0;
    if let Some(rest) = flat.after("already exclusively attached to node ") {
        nodes = list(rest);
    } else if let Some(rest) = flat.after("already used by pods ") {
        pods = list(rest);
        nodes = flat
            .after("already used by pods ")
            .and_then(|rest| rest.split_once(" on node "))
            .map_or(vec![], |(_, rest)| list(rest));
    } else if let Some(rest) = flat.after("already used by pod(s) ") {
        pods = list(rest);
        let count = one_line(rest);
        let count = count.split_once(ELSEWHERE).and_then(|(before, _)| before.rsplit(' ').next()?.parse().ok());
        pods_elsewhere = count.unwrap_or(0);
    } else if flat.has(ELSEWHERE) {
        pods_elsewhere = flat.number_after("already used by ").unwrap_or(0);
    }
    // The rbd plugin's unique name of a volume: kubernetes.io/rbd/POOL:IMAGE.
    let image = flat.between("kubernetes.io/rbd/", "\"").and_then(|name| spec(&name.replacen(':', "/", 1)));
    Some(Failure::MultiAttach { pods, pods_elsewhere, nodes, image })
}

/// Names separated by `, ` at the beginning of a text.
fn list(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    for word in text.split_whitespace() {
        let name = word.trim_end_matches([',', '.', '"', '…']);
        if name.is_empty() {
            break;
        }
        names.push(name.to_owned());
        if !word.ends_with(',') {
            break;
        }
    }
    names
}

fn timed_out(flat: &Flat) -> Option<Failure> {
    let in_brackets = |before: &str| {
        let names = flat.after(before).and_then(|rest| rest.split(']').next()).unwrap_or_default();
        names.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    let (unmounted, unattached) = (in_brackets("unmounted volumes=["), in_brackets("unattached volumes=["));
    let says_so = flat.has("timed out waiting for") || flat.has("timeout expired waiting for");
    if !says_so && unmounted.is_empty() && unattached.is_empty() {
        return None;
    }
    // `Unable to mount volumes for pod "web-0_default(UID)"`, `for pod "default"/"web-0"`
    let pod = flat.between("for pod \"", "\"").map(|pod| match pod.split_once('_') {
        Some((name, rest)) => format!("{}/{name}", rest.split('(').next().unwrap_or_default()),
        None => pod.to_owned(),
    });
    Some(Failure::TimedOut { pod, unmounted, unattached, unprocessed: in_brackets("failed to process volumes=[") })
}

/// The first device node in the text.
fn device(flat: &Flat) -> Option<PathBuf> {
    let name = flat.after("/dev/")?;
    let end = name.find([')', '"', '\'', ',', ':', ';', ']']).unwrap_or(name.len());
    let name = name[..end].split_whitespace().next()?;
    Some(format!("/dev/{name}").into())
}

/// The text without the keys that older plugins print among the arguments, and without marks that a terminal obeys.
fn without_keys(text: &str) -> String {
    const OPTIONS: [&str; 3] = ["--key=", "key=", "secret="];
    let hidden = |word: &str| {
        let option = OPTIONS.into_iter().find_map(|option| word.find(option).map(|at| &word[..at + option.len()]));
        option.map_or_else(|| word.to_owned(), |before| format!("{before}***"))
    };
    let visible: String = text.chars().filter(|c| !c.is_control()).collect();
    visible.split(' ').map(hidden).collect::<Vec<_>>().join(" ")
}
