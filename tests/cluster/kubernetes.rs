//! Volumes for Kubernetes out of the cluster, and what kubelet says of them.

use std::io::Write;
use std::process::{Output, Stdio};

use rbd::kubernetes::VolumeManifest;
use rbd::kubernetes::provision::{ImageVolume, Plugin, Provision, Provisioned};
use rbd::{ErrorKind, Features, ImageSpec, PoolName, Result};
use serde_json::Value;

use super::library::{OwnPool, connect, image, spec};
use super::support::{TestCluster, example, unique};

/// A name for a pool that the test makes through the library; the pool goes when the guard does.
struct NewPool(String);

impl NewPool {
    fn new() -> Self {
        Self(unique("pool"))
    }

    fn spec(&self, image: &str) -> ImageSpec {
        spec(&format!("{}/{image}", self.0))
    }
}

impl Drop for NewPool {
    fn drop(&mut self) {
        let pool: PoolName = self.0.parse().unwrap();
        let _ = connect(TestCluster::shared()).delete_pool_with_all_data(&pool, &self.0);
    }
}

fn run(name: &str, args: &[&str], stdin: &str) -> Output {
    let mut command = TestCluster::shared().command(example(name).to_str().unwrap(), args);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(stdin.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

#[track_caller]
fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn provision(provision: &Provision) -> Result<Provisioned> {
    provision.run(&connect(TestCluster::shared()))
}

const MASK: Features = Features::LAYERING.union(Features::EXCLUSIVE_LOCK);

#[test]
fn pool_and_image_are_made_with_what_a_kernel_can_map() {
    let pool = NewPool::new();
    let plan = Provision::new(&pool.spec("image"), 8 << 20).pg_num(4).for_kernel(MASK);
    let made = provision(&plan).unwrap();
    assert_eq!((made.pool_created, made.features, made.disabled), (true, MASK, Features::empty()));

    let cluster = TestCluster::shared();
    let info = cluster.rbd_json(["info", &format!("{}/image", pool.0)]);
    assert_eq!(
        (&info["size"], info["features"].to_string()),
        (&(8 << 20).into(), r#"["layering","exclusive-lock"]"#.into())
    );
    assert_eq!(cluster.ceph(["osd", "pool", "get", &pool.0, "pg_num"]).trim(), "pg_num: 4");
    let applications: Value =
        serde_json::from_str(&cluster.ceph(["osd", "pool", "application", "get", &pool.0])).unwrap();
    assert!(applications.get("rbd").is_some(), "{applications}");

    // Again: the pool is there, and so is the image, which is left as it is.
    assert_eq!(provision(&plan).unwrap_err().kind(), ErrorKind::AlreadyExists);
    let second = provision(&Provision::new(&pool.spec("second"), 8 << 20)).unwrap();
    assert!(!second.pool_created && second.features.contains(Features::OBJECT_MAP), "{second:?}");
}

#[test]
fn features_that_a_kernel_lacks_can_be_disabled_afterwards() {
    let pool = OwnPool::new();
    let made = provision(&Provision::new(&spec(&pool.spec("image")), 8 << 20).disabled_for_kernel(MASK)).unwrap();
    assert_eq!((made.pool_created, made.features), (false, MASK));
    let gone = Features::OBJECT_MAP | Features::FAST_DIFF | Features::DEEP_FLATTEN;
    assert_eq!((made.disabled, pool.open_read_only("image").unwrap().features().unwrap()), (gone, MASK));
}

#[test]
fn an_image_that_no_choice_of_features_suits_is_not_made() {
    let pool = OwnPool::new();
    let plan = Provision::new(&spec(&pool.spec("image")), 8 << 20).for_kernel(Features::EXCLUSIVE_LOCK);
    assert_eq!(provision(&plan).unwrap_err().kind(), ErrorKind::FeatureImmutable);
    assert_eq!(pool.images().count(), 0);
    assert_eq!(provision(&Provision::new(&spec("image"), 1)).unwrap_err().kind(), ErrorKind::InvalidInput);
}

#[test]
fn the_live_monitors_and_the_real_key_are_in_the_manifests() {
    let cluster = TestCluster::shared();
    let library = connect(cluster);
    let plugin = Plugin::rbd(&library.monitors().unwrap()).unwrap();
    let key = library.auth_key("client.admin").unwrap();
    let volume = ImageVolume::new(&spec("rbd/a"), 1 << 30).unwrap();
    let yaml = volume.manifests(&plugin, "admin", &key).unwrap().to_yaml_with_key().unwrap();
    let documents: Vec<Value> = yaml.split("---\n").map(|text| serde_saphyr::from_str(text).unwrap()).collect();
    assert_eq!(documents[1]["spec"]["rbd"]["monitors"], serde_json::json!([cluster.mon_v1()]));
    assert!(!yaml.contains(key.expose()));
}

/// What is printed is read again; the key is that of the cluster once it is decoded once.
#[test]
fn provision_pv_prints_manifests_that_can_be_applied() {
    let (cluster, pool) = (TestCluster::shared(), NewPool::new());
    let spec = pool.spec("pvc-1").to_string();
    let arguments = [&spec, "--size", "8M", "--user", "admin", "--kernel-mask", "0x5"];

    let nobody = run("provision_pv", &[&spec, "--size", "8M", "--user", "nobody"], "");
    assert_eq!(nobody.status.code(), Some(1));
    assert!(text(&nobody.stderr).contains("look up key of client.nobody"), "{nobody:?}");
    assert!(!cluster.rados(["lspools"]).lines().any(|name| name == pool.0), "nothing is made");

    let key = cluster.ceph(["auth", "get-key", "client.admin"]);
    let shown = run("provision_pv", &arguments, "");
    assert!(shown.status.success(), "{shown:?}");
    assert!(text(&shown.stdout).contains("userKey: '***'"), "{shown:?}");
    assert!(text(&shown.stderr).contains(&format!("made image {spec} with layering, exclusive-lock")), "{shown:?}");

    let other = spec.replace("pvc-1", "pvc-2");
    let shown = run("provision_pv", &[&[other.as_str(), "--with-key"], &arguments[1..]].concat(), "");
    let (status, yaml) = (shown.status, text(&shown.stdout));
    assert!(status.success(), "{}", text(&shown.stderr));
    let documents: Vec<Value> = yaml.split("---\n").map(|text| serde_saphyr::from_str(text).unwrap()).collect();
    let kinds: Vec<_> = documents.iter().map(|document| document["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["Secret", "PersistentVolume", "PersistentVolumeClaim"]);
    let mut decode = TestCluster::shared().command("base64", ["-d"]);
    let mut child = decode.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(documents[0]["data"]["userKey"].as_str().unwrap().as_bytes()).unwrap();
    assert_eq!(text(&child.wait_with_output().unwrap().stdout), key.trim());
    let attributes = &documents[1]["spec"]["csi"]["volumeAttributes"];
    assert_eq!(attributes["clusterID"], cluster.ceph(["fsid"]).trim());
    assert_eq!(attributes["imageFeatures"], "layering,exclusive-lock");
    assert_eq!(VolumeManifest::parse(&documents[1].to_string()).unwrap().image().unwrap().to_string(), other);
}

#[test]
fn explain_tells_what_it_does_not_know_from_a_wrong_argument() {
    let unknown = run("explain", &[], "the weather is fine");
    assert_eq!((unknown.status.code(), text(&unknown.stderr).as_str()), (Some(2), ""));
    let wrong = run("explain", &["--no-such-option"], "");
    assert_eq!((wrong.status.code(), text(&wrong.stdout).as_str()), (Some(64), ""));
    assert!(text(&wrong.stderr).contains("--no-such-option"), "{wrong:?}");
}

/// The story of a rolling update: the new pod waits, the message names the old one, and the cluster who has the image.
#[test]
fn explain_goes_from_a_multi_attach_error_to_the_client_that_must_let_go() {
    let pool = OwnPool::new();
    pool.create_image(&image("pvc-1"), 8 << 20, &Default::default()).unwrap();
    let holder = TestCluster::shared().lock_image(&pool.spec("pvc-1"));
    let client = pool.open_read_only("pvc-1").unwrap().watchers().unwrap()[0];
    let library = connect(TestCluster::shared());
    let volume = ImageVolume::new(&spec(&pool.spec("pvc-1")), 8 << 20).unwrap();
    let key = library.auth_key("client.admin").unwrap();
    let manifests = volume.manifests(&Plugin::csi("ceph"), "admin", &key).unwrap().without_secret().unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&file, manifests.split("---\n").next().unwrap()).unwrap();

    let event = "Warning  FailedAttachVolume  16m  attachdetach-controller  Multi-Attach error for volume \"pvc-1\" Volume is \
        already used by pod(s) web-5b8-p9qrt";
    let arguments = ["--usage", "--manifest", file.path().to_str().unwrap()];
    let output = run("explain", &arguments, event);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    for wanted in [
        "web-5b8-p9qrt, which must let go",
        "maxSurge 0",
        &format!("client.{}", client.client),
        &client.address.to_string(),
    ] {
        assert!(said.contains(wanted), "{wanted}: {said}");
    }
    let json = run("explain", &[&arguments[..], &["--json"]].concat(), event);
    let json: Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json[0]["message"]["failure"], "multi_attach");
    assert_eq!(json[0]["usage"]["image"]["name"], "pvc-1");
    drop(holder);
}
