//! Manifests for an image, read again and compared with what the API of Kubernetes documents, field by field.

use rbd::kubernetes::VolumeManifest;
use rbd::kubernetes::provision::{AccessMode, ImageVolume, Manifests, Plugin, mappable_features};
use rbd::{Error, ErrorKind, Features, Secret};
use serde_json::{Value, json};

const KEY: &str = "AQBRHFNlAAAAABAAAAECAwQFBgcICQoLDA0ODw==";
/// The key above, encoded once more.
const ENCODED: &str = "QVFCUkhGTmxBQUFBQUJBQUFBRUNBd1FGQmdjSUNRb0xEQTBPRHc9PQ==";
const FSID: &str = "b9127830-b0cc-4e34-aa47-9d1a2e9949a8";

fn image(spec: &str) -> ImageVolume {
    ImageVolume::new(&spec.parse().unwrap(), 10 << 30).unwrap()
}

fn in_tree() -> Plugin {
    Plugin::rbd(&"[v2:192.0.2.1:3300/0,v1:192.0.2.1:6789/0],[2001:db8::1]:6789".parse().unwrap()).unwrap()
}

fn make(volume: &ImageVolume, plugin: &Plugin) -> Result<Manifests, Error> {
    volume.manifests(plugin, "kube", &Secret::new(KEY))
}

fn documents(yaml: &str) -> Vec<Value> {
    yaml.split("---\n").map(|document| serde_saphyr::from_str(document).unwrap()).collect()
}

fn read(volume: &ImageVolume, plugin: &Plugin) -> [Value; 3] {
    let manifests = make(volume, plugin).unwrap();
    documents(&manifests.to_yaml_with_key().unwrap()).try_into().unwrap()
}

fn claim(name: &str, namespace: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": { "name": name, "namespace": namespace },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": { "requests": { "storage": "10Gi" } },
            "storageClassName": "",
            "volumeMode": "Filesystem",
            "volumeName": name,
        },
    })
}

fn claim_reference(name: &str, namespace: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "PersistentVolumeClaim", "name": name, "namespace": namespace })
}

#[test]
fn the_manifests_for_ceph_csi_are_as_documented() {
    let volume = image("kube/pvc-1").features("layering,exclusive-lock".parse().unwrap());
    let [secret, pv, pvc] = read(&volume, &Plugin::csi(FSID));
    assert_eq!(
        secret,
        json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": { "name": "ceph-kube", "namespace": "default" },
            "type": "Opaque",
            "data": { "userID": "a3ViZQ==", "userKey": ENCODED },
        })
    );
    assert_eq!(
        pv,
        json!({
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": { "name": "pvc-1" },
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "capacity": { "storage": "10Gi" },
                "claimRef": claim_reference("pvc-1", "default"),
                "csi": {
                    "driver": "rbd.csi.ceph.com",
                    "fsType": "ext4",
                    "nodeStageSecretRef": { "name": "ceph-kube", "namespace": "default" },
                    "volumeAttributes": {
                        "clusterID": FSID,
                        "imageFeatures": "layering,exclusive-lock",
                        "pool": "kube",
                        "staticVolume": "true",
                    },
                    "volumeHandle": "pvc-1",
                },
                "persistentVolumeReclaimPolicy": "Retain",
                "storageClassName": "",
                "volumeMode": "Filesystem",
            },
        })
    );
    assert_eq!(pvc, claim("pvc-1", "default"));
}

#[test]
fn the_manifests_for_the_rbd_plugin_are_as_documented() {
    let volume = image("kube/image").name("data").unwrap().namespace("prod").unwrap().file_system("xfs");
    let [secret, pv, pvc] = read(&volume, &in_tree());
    assert_eq!(
        secret,
        json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": { "name": "ceph-kube", "namespace": "prod" },
            "type": "kubernetes.io/rbd",
            "data": { "key": ENCODED },
        })
    );
    assert_eq!(
        pv,
        json!({
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": { "name": "data" },
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "capacity": { "storage": "10Gi" },
                "claimRef": claim_reference("data", "prod"),
                "persistentVolumeReclaimPolicy": "Retain",
                "rbd": {
                    "fsType": "xfs",
                    "image": "image",
                    "monitors": ["192.0.2.1:6789", "[2001:db8::1]:6789"],
                    "pool": "kube",
                    "secretRef": { "name": "ceph-kube", "namespace": "prod" },
                    "user": "kube",
                },
                "storageClassName": "",
                "volumeMode": "Filesystem",
            },
        })
    );
    assert_eq!(pvc, claim("data", "prod"));
}

#[test]
fn block_devices_readers_and_a_secret_elsewhere() {
    let volume = image("kube/a").block().access_mode(AccessMode::ReadWriteMany).secret("key", "ceph").unwrap();
    let [secret, pv, pvc] = read(&volume, &Plugin::csi_named("rook-ceph.rbd.csi.ceph.com", "rook-ceph"));
    assert_eq!(secret["metadata"], json!({ "name": "key", "namespace": "ceph" }));
    let csi = &pv["spec"]["csi"];
    assert_eq!(csi["nodeStageSecretRef"], secret["metadata"]);
    assert_eq!((&csi["driver"], &csi["fsType"]), (&json!("rook-ceph.rbd.csi.ceph.com"), &Value::Null));
    for object in [&pv, &pvc] {
        assert_eq!(
            (&object["spec"]["volumeMode"], &object["spec"]["accessModes"]),
            (&json!("Block"), &json!(["ReadWriteMany"]))
        );
    }
    let [_, pv, _] = read(&image("kube/a").access_mode(AccessMode::ReadOnlyMany), &in_tree());
    assert_eq!(pv["spec"]["rbd"]["readOnly"], true);
}

/// What reads the manifest finds the same image behind it.
#[test]
fn the_image_is_found_again_in_the_manifest() {
    for plugin in [in_tree(), Plugin::csi(FSID)] {
        let [_, pv, _] = read(&image("kube/pvc-1"), &plugin);
        assert_eq!(VolumeManifest::parse(&pv.to_string()).unwrap().image().unwrap().to_string(), "kube/pvc-1");
    }
}

/// Kubernetes reads YAML 1.1, where such names are booleans, numbers, times and nothing.
#[test]
fn names_stay_text_for_every_reader() {
    for name in ["yes", "on", "null", "1e3", "1-1", "0x1f", "2024-01-01"] {
        let yaml = make(&image(&format!("kube/{name}")), &Plugin::csi(FSID)).unwrap().without_secret().unwrap();
        assert!(yaml.contains(&format!("volumeHandle: '{name}'\n")), "{yaml}");
        assert!(yaml.contains(&format!("volumeName: '{name}'\n")), "{yaml}");
    }
    // The image's name need not be one for Kubernetes.
    let [_, pv, _] = read(&image("Kube/It's_1:2 #".replace(' ', "").as_str()).name("a").unwrap(), &Plugin::csi(FSID));
    assert_eq!(pv["spec"]["csi"]["volumeHandle"], "It's_1:2#");
}

#[test]
fn the_key_is_there_only_where_it_was_asked_for() {
    for plugin in [in_tree(), Plugin::csi(FSID)] {
        let volume = image("kube/a");
        let manifests = make(&volume, &plugin).unwrap();
        let shown = format!("{manifests} {manifests:?} {volume:?} {plugin:?} {}", manifests.without_secret().unwrap());
        assert!(!shown.contains(KEY) && !shown.contains(ENCODED), "{shown}");
        assert!(shown.contains("ey: '***'"), "{shown}");
        let asked = manifests.to_yaml_with_key().unwrap();
        assert!(asked.contains(ENCODED) && !asked.contains(KEY));
        // The two differ in nothing else.
        assert_eq!(asked.trim_end().replace(ENCODED, "***"), manifests.to_string());
    }
}

/// The usual mistake: the key encoded by hand before it is put where it is encoded anyway.
#[test]
fn a_key_that_is_encoded_twice_is_refused_and_not_repeated() {
    for key in [ENCODED, "", "hello", "AQB"] {
        let error = image("kube/a").manifests(&Plugin::csi(FSID), "kube", &Secret::new(key)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.hint().unwrap().contains("once and not twice"), "{error}");
        assert!(key.is_empty() || !format!("{error:#} {error:?}").contains(key), "{error:#}");
    }
}

#[test]
fn what_would_destroy_data_or_not_work_is_refused() {
    let refused = |volume: &ImageVolume, plugin: &Plugin| make(volume, plugin).unwrap_err().kind();
    let many = image("kube/a").access_mode(AccessMode::ReadWriteMany);
    assert_eq!(refused(&many, &Plugin::csi(FSID)), ErrorKind::InvalidInput);
    assert_eq!(refused(&many.block(), &in_tree()), ErrorKind::InvalidInput);
    let one_pod = image("kube/a").access_mode(AccessMode::ReadWriteOncePod);
    assert_eq!(refused(&one_pod, &in_tree()), ErrorKind::InvalidInput);
    assert!(make(&one_pod, &Plugin::csi(FSID)).is_ok());
    assert_eq!(refused(&image("kube/ns/a"), &in_tree()), ErrorKind::InvalidInput);
    assert!(make(&image("kube/ns/a"), &Plugin::csi(FSID)).is_ok());
    assert_eq!(refused(&image("kube/My_Image"), &Plugin::csi(FSID)), ErrorKind::InvalidName);
    let user = image("kube/a").manifests(&Plugin::csi(FSID), "Kube_1", &Secret::new(KEY)).unwrap_err();
    assert_eq!(user.kind(), ErrorKind::InvalidName);
    let plan = |spec: &str, size| ImageVolume::new(&spec.parse().unwrap(), size).unwrap_err().kind();
    assert_eq!(plan("a", 1), ErrorKind::InvalidInput);
    assert_eq!(plan("kube/a@s", 1), ErrorKind::InvalidInput);
    assert_eq!(plan("kube/a", 0), ErrorKind::InvalidInput);
    assert_eq!(plan("kube/a b", 1), ErrorKind::InvalidName);
    assert!(image("kube/a").name("A").is_err() && image("kube/a").namespace("a.b").is_err());
    let v2_only = Plugin::rbd(&"[v2:192.0.2.1:3300/0]".parse().unwrap()).unwrap_err();
    assert!(v2_only.hint().unwrap().contains("ms_mode"), "{v2_only}");
}

#[test]
fn features_are_chosen_for_a_kernel() {
    let usual = Features::from_bits_retain(0x3d);
    let chosen =
        |mask: u64| mappable_features(usual, Features::from_bits_retain(mask)).map(|features| features.bits()).ok();
    assert_eq!(chosen(0x1bf), Some(0x3d));
    assert_eq!(chosen(0x7), Some(0x5));
    // Without exclusive-lock, nothing that needs it.
    assert_eq!(chosen(0x1bb), Some(0x21));
    // Fast-diff goes with the object map.
    assert_eq!(chosen(0x2f), Some(0x25));
    assert_eq!(chosen(0x0), None);
}
