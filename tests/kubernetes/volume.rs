//! PersistentVolumes that are there already: which image is behind one, and how to replace one.

use rbd::ErrorKind;
use rbd::kubernetes::{FuseOptions, FuseTool, Replacement, VolumeManifest};
use serde_json::{Value, json};

const COS: &str = r#"
apiVersion: v1
kind: PersistentVolume
metadata:
  annotations:
    pv.kubernetes.io/bound-by-controller: "yes"
  creationTimestamp: "2026-11-01T00:00:00Z"
  finalizers: [kubernetes.io/pv-protection]
  labels: {store: cos}
  name: pv-cos
  resourceVersion: "123"
  uid: 0a1
spec:
  accessModes: [ReadWriteMany]
  capacity: {storage: 10Gi}
  claimRef: {apiVersion: v1, kind: PersistentVolumeClaim, name: data, namespace: prod, resourceVersion: "122", uid: 0a2}
  csi:
    driver: com.tencent.cloud.csi.cosfs
    nodePublishSecretRef: {name: cos-secret, namespace: kube-system}
    volumeAttributes:
      additional_args: -oensure_diskfree=204800 -o allow_other,multipart_size=20
      bucket: data-1250000000
      url: http://cos.example.com
    volumeHandle: pv-cos
  persistentVolumeReclaimPolicy: Delete
  storageClassName: ""
  volumeMode: Filesystem
status:
  phase: Bound
"#;

fn parse_yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap()
}

fn volume(spec: Value) -> VolumeManifest {
    let manifest = json!({ "apiVersion": "v1", "kind": "PersistentVolume", "metadata": { "name": "v" }, "spec": spec });
    VolumeManifest::parse(&manifest.to_string()).unwrap()
}

#[test]
fn the_image_behind_a_volume_is_found_for_every_driver() {
    let image = |spec| volume(spec).image().map(|image| image.to_string());
    assert_eq!(image(json!({ "rbd": { "pool": "kube", "image": "a" } })).as_deref(), Some("kube/a"));
    assert_eq!(image(json!({ "rbd": { "image": "a" } })).as_deref(), Some("rbd/a"));
    let csi = |attributes: Value| json!({ "csi": { "volumeHandle": "handle", "volumeAttributes": attributes } });
    assert_eq!(image(csi(json!({ "pool": "kube", "imageName": "csi-vol-1" }))).as_deref(), Some("kube/csi-vol-1"));
    assert_eq!(image(csi(json!({ "pool": "kube", "staticVolume": "true" }))).as_deref(), Some("kube/handle"));
    let in_namespace = json!({ "pool": "kube", "radosNamespace": "ns", "imageName": "i" });
    assert_eq!(image(csi(in_namespace)).as_deref(), Some("kube/ns/i"));
    let flex = json!({ "flexVolume": { "driver": "ceph.rook.io/rook", "options": { "pool": "p", "image": "i" } } });
    assert_eq!(image(flex).as_deref(), Some("p/i"));
    assert_eq!(image(csi(json!({ "pool": "kube" }))), None);
    assert_eq!(image(json!({ "nfs": {} })), None);
}

#[test]
fn the_options_of_an_object_stores_volume_are_found() {
    let (tool, options) = VolumeManifest::parse(COS).unwrap().fuse().unwrap();
    assert_eq!((tool, options.ensure_diskfree, options.multipart_size), (FuseTool::Cosfs, Some(204_800), Some(20)));
    let oss = json!({ "csi": { "driver": "ossplugin.csi.alibabacloud.com", "volumeAttributes": { "otherOpts": "-o a -o use_cache=/c" } } });
    let (tool, options) = volume(oss).fuse().unwrap();
    assert_eq!((tool, options.use_cache), (FuseTool::Ossfs, Some("/c".into())));
    let listed = json!({ "csi": { "driver": "ru.yandex.s3.csi", "volumeAttributes": {} }, "mountOptions": ["ensure_diskfree=3"] });
    assert_eq!(volume(listed).fuse().unwrap().1.ensure_diskfree, Some(3));
    assert_eq!(volume(json!({ "nfs": {} })).fuse(), None);
}

#[test]
fn a_corrected_volume_differs_in_its_options_and_has_no_state() {
    let old = VolumeManifest::parse(COS).unwrap();
    let new = old.with_cache_options(&FuseOptions::parse("-oensure_diskfree=1024 -ouse_cache=/data")).unwrap();
    let args = "-o allow_other,multipart_size=20 -ouse_cache=/data -oensure_diskfree=1024";
    assert_eq!(
        parse_yaml(&new.to_yaml().unwrap()),
        json!({
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": { "name": "pv-cos", "labels": { "store": "cos" } },
            "spec": {
                "accessModes": ["ReadWriteMany"],
                "capacity": { "storage": "10Gi" },
                "claimRef": {
                    "apiVersion": "v1", "kind": "PersistentVolumeClaim", "name": "data", "namespace": "prod",
                },
                "csi": {
                    "driver": "com.tencent.cloud.csi.cosfs",
                    "nodePublishSecretRef": { "name": "cos-secret", "namespace": "kube-system" },
                    "volumeAttributes": {
                        "additional_args": args, "bucket": "data-1250000000", "url": "http://cos.example.com",
                    },
                    "volumeHandle": "pv-cos",
                },
                "persistentVolumeReclaimPolicy": "Delete",
                "storageClassName": "",
                "volumeMode": "Filesystem",
            },
        })
    );
    assert_eq!(VolumeManifest::parse(&new.to_yaml().unwrap()).unwrap(), new);
}

#[test]
fn a_volume_is_replaced_in_an_order_that_loses_nothing() {
    let old = VolumeManifest::parse(COS).unwrap();
    let new = old.with_cache_options(&FuseOptions::parse("-oensure_diskfree=1024")).unwrap();
    let replacement = Replacement::new(&old, &new).unwrap();
    let commands: Vec<&str> = replacement.steps.iter().map(|step| step.command.as_str()).collect();
    assert_eq!(
        commands,
        [
            "kubectl get pv pv-cos -o yaml >pv-cos.old.yaml",
            r#"kubectl patch pv pv-cos -p '{"spec":{"persistentVolumeReclaimPolicy":"Retain"}}'"#,
            "kubectl -n prod get pvc data -o yaml >data.yaml",
            "kubectl -n prod describe pvc data",
            "kubectl -n prod delete pvc data",
            "kubectl delete pv pv-cos",
            "kubectl create -f pv-cos.yaml",
            "kubectl -n prod get pvc data",
        ]
    );
    let (first, claim) = replacement.manifest.split_once("---\n").unwrap();
    assert_eq!(VolumeManifest::parse(first).unwrap(), new);
    assert_eq!(
        parse_yaml(claim),
        json!({
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": { "name": "data", "namespace": "prod" },
            "spec": {
                "accessModes": ["ReadWriteMany"],
                "resources": { "requests": { "storage": "10Gi" } },
                "storageClassName": "",
                "volumeMode": "Filesystem",
                "volumeName": "pv-cos",
            },
        })
    );
    let retained = VolumeManifest::parse(&COS.replace("Delete", "Retain")).unwrap();
    let steps = Replacement::new(&retained, &new).unwrap().steps;
    assert!(steps.iter().all(|step| !step.command.contains("patch")), "{steps:?}");
}

#[test]
fn a_key_among_the_options_is_not_in_debug() {
    let keys = json!({ "flexVolume": { "driver": "alicloud/oss", "options": { "akSecret": "topsecret" } } });
    let volume = volume(keys);
    assert_eq!(format!("{volume:?}"), r#"VolumeManifest("v")"#);
    let replacement = Replacement::new(&volume, &volume).unwrap();
    assert!(replacement.manifest.contains("topsecret"), "it would be lost: {replacement}");
    assert!(!format!("{replacement:?}").contains("topsecret"));
}

#[test]
fn what_is_no_volume_is_refused_and_not_repeated() {
    for text in ["", "a: b: c", "[1, 2]", "kind: Secret\ndata: {key: QVFCc2VjcmV0}", "kind: PersistentVolume", "\t\0"] {
        let error = VolumeManifest::parse(text).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{text}");
        assert!(!format!("{error:#}").contains("QVFC"), "{error:#}");
    }
    let error = volume(json!({ "nfs": {} })).with_cache_options(&FuseOptions::default()).unwrap_err();
    assert_eq!((error.kind(), error.object()), (ErrorKind::InvalidInput, Some("v")));
}
