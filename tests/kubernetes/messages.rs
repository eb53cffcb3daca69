//! Messages as Kubernetes and the volume plugins print them, and what is read out of them.

use rbd::kubernetes::{Failure, FailureMessage};
use rbd::{Features, ImageSpec};

fn spec(text: &str) -> Option<ImageSpec> {
    Some(text.parse().unwrap())
}

#[test]
fn an_image_still_in_use_names_pool_and_image() {
    let text = "MountVolume.WaitForAttach failed for volume \"pvc-0f2\" : rbd image kube/pvc-0f2 is still being used";
    let message = FailureMessage::parse(text);
    assert_eq!(message.failure, Failure::ImageInUse { image: spec("kube/pvc-0f2"), watchers: vec![] });
    assert_eq!(message.volume.as_deref(), Some("pvc-0f2"));
    assert_eq!(message.text, text);
    assert_eq!(message.to_string(), "volume pvc-0f2: image kube/pvc-0f2 is in use");

    let csi = "MountVolume.MountDevice failed for volume \"pvc-1\" : rpc error: code = Internal desc = \
        rbd image replicapool/tenant/csi-vol-9a1 is still being used";
    assert_eq!(FailureMessage::parse(csi).image(), spec("replicapool/tenant/csi-vol-9a1").as_ref());
}

#[test]
fn the_watchers_in_the_output_of_rbd_status_are_read() {
    let text = "rbd image kube/a is still being used, rbd output: Watchers:\n\
        \twatcher=192.0.2.10:0/2359070641 client.35594571 cookie=18446462598732840969\n\
        \twatcher=[2001:db8::1]:0/3012034728 client.4235 cookie=18446462598732840961\n";
    let Failure::ImageInUse { watchers, .. } = FailureMessage::parse(text).failure else { panic!() };
    let seen: Vec<_> = watchers.iter().map(|watcher| (watcher.client, watcher.address.to_string())).collect();
    assert_eq!(
        seen,
        [(35594571, "192.0.2.10:0/2359070641".to_owned()), (4235, "[2001:db8::1]:0/3012034728".to_owned())]
    );
}

#[test]
fn a_multi_attach_error_names_the_pods() {
    let parse = |rest: &str| {
        let message = FailureMessage::parse(&format!("Multi-Attach error for volume \"pvc-e9c\" {rest}"));
        assert_eq!(message.volume.as_deref(), Some("pvc-e9c"));
        message.failure
    };
    let attached = |pods: &[&str], pods_elsewhere, nodes: &[&str]| Failure::MultiAttach {
        pods: pods.iter().map(ToString::to_string).collect(),
        pods_elsewhere,
        nodes: nodes.iter().map(ToString::to_string).collect(),
        image: None,
    };
    assert_eq!(parse("Volume is already used by pod(s) web-7f9-2bs4j"), attached(&["web-7f9-2bs4j"], 0, &[]));
    assert_eq!(
        parse("Volume is already used by pod(s) web-1, web-2 and 3 pod(s) in different namespaces"),
        attached(&["web-1", "web-2"], 3, &[])
    );
    assert_eq!(parse("Volume is already used by 2 pod(s) in different namespaces"), attached(&[], 2, &[]));
    assert_eq!(
        parse("Volume is already exclusively attached to one node and can't be attached to another"),
        attached(&[], 0, &[])
    );
}

#[test]
fn the_controllers_log_names_nodes_and_image() {
    let text = "W1201 00:42:04.100000       1 reconciler.go:344] Multi-Attach error for volume \"pv-1\" \
        (UniqueName: \"kubernetes.io/rbd/kube:pvc-1\") from node \"node-b\" Volume is already used by pods \
        default/web-0, default/web-1 on node node-a";
    let message = FailureMessage::parse(text);
    assert_eq!(message.node.as_deref(), Some("node-b"));
    assert_eq!(message.image(), spec("kube/pvc-1").as_ref());
    let Failure::MultiAttach { pods, nodes, .. } = &message.failure else { panic!() };
    assert_eq!((pods.join(" "), nodes.join(" ")), ("default/web-0 default/web-1".into(), "node-a".into()));

    let text = text.replace("used by pods default/web-0, default/web-1 on", "exclusively attached to");
    let Failure::MultiAttach { pods, nodes, .. } = FailureMessage::parse(&text).failure else { panic!() };
    assert_eq!((pods.len(), nodes.join(" ")), (0, "node-a".into()));
}

#[test]
fn a_time_out_has_its_lists_of_volumes() {
    let failure = |text: &str| FailureMessage::parse(text).failure;
    let timed_out = |pod: Option<&str>, lists: [&[&str]; 3]| {
        let [unmounted, unattached, unprocessed] =
            lists.map(|names| names.iter().map(ToString::to_string).collect::<Vec<_>>());
        Failure::TimedOut { pod: pod.map(str::to_owned), unmounted, unattached, unprocessed }
    };
    assert_eq!(
        failure(
            "Unable to attach or mount volumes: unmounted volumes=[data], unattached volumes=[data kube-api-access-x], \
             failed to process volumes=[conf]: timed out waiting for the condition"
        ),
        timed_out(None, [&["data"], &["data", "kube-api-access-x"], &["conf"]])
    );
    let old = "Unable to mount volumes for pod \"web-0_prod(c38af83c-fed7)\": timeout expired waiting for volumes to \
        attach or mount for pod \"prod\"/\"web-0\". list of unmounted volumes=[pg]. list of unattached volumes=[pg token";
    assert_eq!(failure(old), timed_out(Some("prod/web-0"), [&["pg"], &["pg", "token"], &[]]));
    assert_eq!(failure("timed out waiting for the condition"), timed_out(None, [&[], &[], &[]]));
}

#[test]
fn a_failed_map_has_its_errno_and_what_rbd_said() {
    let csi = "MountVolume.MountDevice failed for volume \"pvc-1\" : rpc error: code = Internal desc = rbd: map failed \
        with error an error (exit status 108) occurred while running rbd args: [--id csi-rbd-node -m 192.0.2.1:3300 \
        --keyfile=***stripped*** map kube/csi-vol-1 --device-type krbd --options noudev], rbd error output: rbd: sysfs \
        write failed\nrbd: map failed: (108) Cannot send after transport endpoint shutdown\n";
    let message = FailureMessage::parse(csi);
    let output = ["rbd: sysfs write failed", "rbd: map failed: (108) Cannot send after transport endpoint shutdown"];
    assert_eq!(
        message.failure,
        Failure::MapFailed {
            image: spec("kube/csi-vol-1"),
            errno: Some(108),
            output: output.map(str::to_owned).to_vec()
        }
    );
    assert!(message.explain().cause.contains("blocklist"), "{}", message.explain());

    let in_tree =
        "rbd: map failed exit status 2, rbd output: rbd: sysfs write failed\r\nrbd: map failed: (2) No such file";
    let Failure::MapFailed { image: None, errno: Some(2), output } = FailureMessage::parse(in_tree).failure else {
        panic!()
    };
    assert_eq!(output.len(), 2);
}

#[test]
fn a_feature_mismatch_says_which_features_and_how_to_disable_them() {
    let hint = "rbd: map failed exit status 6, rbd output: rbd: sysfs write failed\nRBD image feature set mismatch. You \
        can disable features unsupported by the kernel with \"rbd feature disable kube/pvc-1 object-map fast-diff \
        deep-flatten\".\nIn some cases useful info is found in syslog - try \"dmesg | tail\".\nrbd: map failed: (6) No \
        such device or address";
    let message = FailureMessage::parse(hint);
    let Failure::FeatureMismatch { image, features } = &message.failure else { panic!("{message:?}") };
    assert_eq!(*image, spec("kube/pvc-1"));
    assert_eq!((features.disable.bits(), features.permanent), (0x38, Features::empty()));
    assert_eq!(message.explain().change[0], "`rbd feature disable kube/pvc-1 object-map fast-diff deep-flatten`");

    let older =
        "feature set mismatch. You can disable features unsupported by the kernel with \"rbd feature disable\".";
    let Failure::FeatureMismatch { image: None, features } = FailureMessage::parse(older).failure else { panic!() };
    assert!(features.is_empty());

    let immutable = "This image cannot be mapped because the following immutable features are unsupported by the \
        kernel: data-pool operations.\nIn some cases";
    let Failure::FeatureMismatch { features, .. } = FailureMessage::parse(immutable).failure else { panic!() };
    assert_eq!(features.permanent, Features::DATA_POOL | Features::OPERATIONS);

    let kernel = "rbd: image pvc-1: image uses unsupported features: 0xb8";
    let Failure::FeatureMismatch { features, .. } = FailureMessage::parse(kernel).failure else { panic!() };
    assert_eq!((features.disable.bits(), features.permanent.bits()), (0x38, 0x80));
}

#[test]
fn what_the_cluster_demands_of_a_kernel_is_no_matter_of_the_image() {
    let text =
        "libceph: mon0 192.0.2.1:6789 feature set mismatch, my 4a042a42 < server's 2004a042a42, missing 20000000000";
    let expected = Failure::ClusterFeatures { missing: Some(0x200_0000_0000) };
    assert_eq!(FailureMessage::parse(text).failure, expected);
    assert_eq!(FailureMessage::parse(&format!("{text}\nb: error")).failure, expected);
}

#[test]
fn a_busy_unmap_names_the_device() {
    let in_tree = "UnmountDevice failed for volume \"pv-1\" (UniqueName: \"kubernetes.io/rbd/kube:a\") on node \"node-a\" : \
        rbd: failed to unmap device /dev/rbd4, error exit status 16, rbd output: rbd: sysfs write failed\nrbd: unmap \
        failed: (16) Device or resource busy";
    let message = FailureMessage::parse(in_tree);
    let expected = Failure::UnmapFailed { device: Some("/dev/rbd4".into()), image: None, errno: Some(16) };
    assert_eq!((message.failure, message.node.as_deref()), (expected, Some("node-a")));

    let stacked = "rbd: failed to unmap device /dev/mapper/luks-rbd failed, error exit status 16";
    let expected = Failure::UnmapFailed { device: Some("/dev/mapper/luks-rbd".into()), image: None, errno: Some(16) };
    assert_eq!(FailureMessage::parse(stacked).failure, expected);

    let csi = "rbd: unmap for spec (kube/csi-vol-1) failed (an error (exit status 16) occurred while running rbd args: \
        [unmap kube/csi-vol-1 --device-type krbd]): (rbd: unmap failed: (16) Device or resource busy)";
    let expected = Failure::UnmapFailed { device: None, image: spec("kube/csi-vol-1"), errno: Some(16) };
    assert_eq!(FailureMessage::parse(csi).failure, expected);
    assert!(FailureMessage::parse("rbd: unmap failed: (16)").explain().change.iter().any(|c| c.contains("force")));
}

#[test]
fn an_event_table_gives_its_messages_and_no_others() {
    let text = "\
Name:         web-6c9d7f5b8-k2xwm
Volumes:
  data:
    ClaimName:  data
Events:
  Type     Reason              Age                From                     Message
  ----     ------              ----               ----                     -------
  Normal   Scheduled           16m                default-scheduler        Successfully assigned demos/web to node-b
  Warning  FailedAttachVolume  16m                attachdetach-controller  Multi-Attach error for volume \"pvc-ec1\" Volume is already used by pod(s) web-5b8-p9qrt
  Warning  FailedMount         29s (x6 over 11m)  kubelet                  Unable to attach or mount volumes: unmounted volumes=[data], unattached volumes=[data kube-api-access-f9q7s]: timed out waiting for the condition
  Warning  BackOff             5s                 kubelet                  Back-off restarting failed container
  Warning  FailedMount         2s                 kubelet                  MountVolume.MountDevice failed for volume \"pvc-ec1\" : rpc error: code = Internal desc = rbd image kube/csi-vol-1 is still being used
  Warning  FailedMount         1s                 kubelet                  MountVolume.MountDevice failed for volume \"pvc-ec1\" : rpc error: code = Internal desc = rbd image kube/csi-vol-1 is still being used
";
    let read = |text: &str| FailureMessage::parse_all(text).iter().map(ToString::to_string).collect::<Vec<_>>();
    let expected = [
        "volume pvc-ec1: attached to another node",
        "kubelet gave up waiting for the pod's volumes",
        "not recognised: Warning BackOff 5s kubelet Back-off restarting failed container",
        "volume pvc-ec1: image kube/csi-vol-1 is in use",
    ];
    assert_eq!(read(text), expected);
    assert_eq!(read(&text.replace('\n', "\r\n")), expected);
}

#[test]
fn a_message_quoted_in_a_structured_log_is_read() {
    let text = r#"E0713 20:26:21.470936 173611 nestedpendingoperations.go:335] "MountVolume.SetUp failed" err="MountVolume.WaitForAttach failed for volume \"pvc-1\" : rbd image kube/pvc-1 is still being used\n""#;
    let message = FailureMessage::parse(text);
    assert_eq!((message.volume.as_deref(), message.image()), (Some("pvc-1"), spec("kube/pvc-1").as_ref()));
}

#[test]
fn what_is_cut_off_is_read_as_far_as_it_goes() {
    let image = |text: &str| FailureMessage::parse(text).image().map(ToString::to_string);
    assert_eq!(image("rbd image kube/pvc-1 is still bei"), Some("kube/pvc-1".into()));
    assert_eq!(image("rbd image kube/pv"), None);
    let failure =
        FailureMessage::parse("Multi-Attach error for volume \"pvc-1\" Volume is already used by pod(s) a, b");
    let Failure::MultiAttach { pods, .. } = failure.failure else { panic!() };
    assert_eq!(pods, ["a", "b"]);
}

#[test]
fn an_unknown_message_is_said_to_be_unknown() {
    for text in ["", "\n", "Back-off pulling image \"nginx\"", "MountVolume.SetUp failed for volume \"x\" : no idea"] {
        let message = FailureMessage::parse(text);
        assert_eq!(message.failure, Failure::NotRecognised, "{text}");
        assert!(message.explain().cause.contains("does not know"), "{}", message.explain());
    }
    let message = FailureMessage::parse("MountVolume.SetUp failed for volume \"x\" : no idea");
    assert_eq!(message.volume.as_deref(), Some("x"));
    assert_eq!(FailureMessage::parse_all("all is well"), []);
    // Nor is every error in a log one of a volume.
    assert_eq!(FailureMessage::parse_all("E1201 00:00:00.1 1 a.go:1] no route\nE1201 00:00:00.2 1 a.go:1] no"), []);
}

#[test]
fn a_key_in_a_message_is_not_repeated() {
    let text =
        "rbd: map failed exit status 1, rbd output: rbd map a --key=AQBsecret== failed name=a,secret=AQBsecret==";
    let message = FailureMessage::parse(text);
    let all = format!("{message:?} {message} {} {}", message.explain(), serde_json::to_string(&message).unwrap());
    assert!(!all.contains("AQBsecret"), "{all}");
    assert!(message.text.contains("--key=***"), "{}", message.text);
}

/// The story of a rolling update with ReadWriteOnce: who must let go, and what the Deployment should change.
#[test]
fn the_advice_for_a_rolling_update_names_who_must_let_go_and_what_to_change() {
    let text = "Multi-Attach error for volume \"pvc-1\" Volume is already used by pod(s) web-5b8-p9qrt";
    let advice = FailureMessage::parse(text).explain();
    assert!(advice.cause.contains("pvc-1 is used by pod web-5b8-p9qrt, which must let go"), "{advice}");
    for wanted in ["maxSurge 0", "Recreate", "StatefulSet", "ReadWriteMany"] {
        assert!(advice.change.iter().any(|change| change.contains(wanted)), "{wanted}: {advice}");
    }
    assert!(advice.check[0].contains("`kubectl get pod web-5b8-p9qrt -o wide`"), "{advice}");
    assert!(advice.check[1].contains("grep pvc-1"), "{advice}");
}

#[test]
fn the_json_has_the_kind_and_the_values() {
    let text = "MountVolume.WaitForAttach failed for volume \"pvc-1\" : rbd image kube/pvc-1 is still being used";
    let json = serde_json::to_value(FailureMessage::parse(text)).unwrap();
    assert_eq!((&json["failure"], &json["image"]), (&"image_in_use".into(), &"kube/pvc-1".into()));
    assert_eq!(json["volume"], "pvc-1");
}

#[test]
fn nothing_that_a_terminal_obeys_comes_out_of_a_message() {
    for escape in ["\u{1b}[2J", r"\u001b[2J"] {
        let text = format!(
            "MountVolume.WaitForAttach failed for volume \"pvc{escape}\" : rbd image kube/pvc-1 is still being used"
        );
        let message = FailureMessage::parse(&text);
        assert_eq!(message.image().unwrap().to_string(), "kube/pvc-1");
        let shown = format!("{message}\n{}", message.explain());
        assert!(!shown.contains(|c: char| c.is_control() && c != '\n'), "{shown:?}");
        assert!(shown.contains("[2J"), "{shown:?}");
    }
}
