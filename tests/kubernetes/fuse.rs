//! Object stores through FUSE.

use rbd::kubernetes::{
    CacheReport, CacheVerdict, DiskSpace, Failure, FailureMessage, FuseComplaint, FuseMount, FuseOptions, FuseTool,
};

const LAUNCHER: &str = r#"MountVolume.SetUp failed for volume "pv-cos" : rpc error: code = Internal desc = mounter: cosfs, mount pv-cos to /var/lib/kubelet/pods/0a1/volumes/kubernetes.io~csi/pv-cos/mount failed, error: the response of launcher mount is: {"errmsg":"exec command cosfs data-1250000000:/in /var/lib/kubelet/pods/0a1/volumes/kubernetes.io~csi/pv-cos/mount -ourl=http://cos.example.com -odbglevel=err -opasswd_file=/etc/csi-cos/p -oensure_diskfree=204800 -ouse_cache=/data/cache -odel_cache failed, output: cosfs: There is no enough disk space for used as cache(or temporary) directory by s3fs.\n, error: exit status 1","result":"failure"}"#;

fn mount(text: &str) -> FuseMount {
    match FailureMessage::parse(text).failure {
        Failure::FuseMount(mount) => mount,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_launchers_json_gives_bucket_mount_point_and_options() {
    let message = FailureMessage::parse(LAUNCHER);
    assert_eq!(message.volume.as_deref(), Some("pv-cos"));
    assert_eq!(message.to_string(), "volume pv-cos: cosfs did not mount data-1250000000:/in: no room for its cache");
    let mount = mount(LAUNCHER);
    assert_eq!((mount.tool, &mount.complaint, mount.exit_status), (FuseTool::Cosfs, &FuseComplaint::NoSpace, Some(1)));
    assert_eq!(mount.bucket.as_deref(), Some("data-1250000000:/in"));
    let at = "/var/lib/kubelet/pods/0a1/volumes/kubernetes.io~csi/pv-cos/mount";
    assert_eq!(mount.mount_point, Some(at.into()));
    assert_eq!(mount.options.to_string(), "-ouse_cache=/data/cache -odel_cache -oensure_diskfree=204800");
    let advice = message.explain();
    assert!(advice.cause.contains("204810 MiB free in /data/cache"), "{advice}");
    assert!(advice.change.iter().any(|change| change.contains("pv-cos must be replaced")), "{advice}");
}

#[test]
fn the_same_is_read_in_a_quoted_log_and_wrapped() {
    let quoted = format!("E1201 00:42:04.1 1 nested.go:1] err={LAUNCHER:?}");
    assert_eq!(mount(&quoted), mount(LAUNCHER));
    assert_eq!(mount(&LAUNCHER.replace(' ', "\r\n    ")), mount(LAUNCHER));
}

#[test]
fn the_other_tools_are_told_apart() {
    let s3fs = mount("s3fs: There is no enough disk space for used as cache(or temporary) directory by s3fs.");
    assert_eq!((s3fs.tool, s3fs.complaint), (FuseTool::S3fs, FuseComplaint::NoSpace));
    let mount8 = mount(
        "MountVolume.SetUp failed for volume \"s3\" : mount failed: exit status 1\nMounting command: mount\nMounting \
         arguments: -t fuse.s3fs -o use_cache=/c,ensure_diskfree=100 bucket /mnt/b\nOutput: s3fs: unable to access \
         MOUNTPOINT /mnt/b: No such file or directory",
    );
    let said = "unable to access MOUNTPOINT /mnt/b: No such file or directory";
    assert_eq!((mount8.tool, &mount8.complaint), (FuseTool::S3fs, &FuseComplaint::Other(said.into())));
    assert_eq!((mount8.options.use_cache, mount8.options.ensure_diskfree), (Some("/c".into()), Some(100)));
    let ossfs = mount("ossfs: could not access to cache directory(/c) by errno(2).");
    assert_eq!((ossfs.tool, ossfs.complaint), (FuseTool::Ossfs, FuseComplaint::NoCacheDirectory));
    // The name of a driver is no program that failed.
    let driver = "driver name com.tencent.cloud.csi.cosfs: not found in the list of registered CSI drivers";
    assert!(!FailureMessage::parse(driver).is_recognised());
}

#[test]
fn options_are_read_in_every_spelling() {
    let read = |text: &str| FuseOptions::parse(text);
    let options = read("-ouse_cache=/a -o ensure_diskfree=7,del_cache -o multipart_size=20 -oparallel_count=3 -f");
    let text = "-ouse_cache=/a -odel_cache -oensure_diskfree=7 -omultipart_size=20 -oparallel_count=3";
    assert_eq!(options.to_string(), text);
    assert_eq!(read(text), options);
    assert_eq!(read("use_cache=/a,ensure_diskfree=1").ensure_diskfree, Some(1));
    assert_eq!(read("-ouse_cache= -oensure_diskfree=10G").unreadable, ["ensure_diskfree=10G"]);
}

/// B61 and B63: what is demanded is a product and a sum, in MiB.
#[test]
fn what_a_tool_demands_follows_from_its_options() {
    let demand = |tool: FuseTool, options: &str| tool.demand(&FuseOptions::parse(options));
    assert_eq!(demand(FuseTool::S3fs, ""), (50, 60));
    assert_eq!(demand(FuseTool::S3fs, "-oensure_diskfree=10"), (60, 60));
    assert_eq!(demand(FuseTool::S3fs, "-oensure_diskfree=0"), (60, 60));
    assert_eq!(demand(FuseTool::Ossfs, "-omultipart_size=102400"), (512_000, 614_400));
    assert_eq!(demand(FuseTool::Cosfs, ""), (60, 60));
    assert_eq!(demand(FuseTool::Cosfs, "-oensure_diskfree=204800"), (204_810, 204_810));
    let huge = format!("-omultipart_size={0} -oensure_diskfree={0}", u64::MAX);
    assert_eq!(demand(FuseTool::S3fs, &huge).0, u64::MAX);
}

/// In MiB.
fn judge(tool: FuseTool, options: &str, exists: bool, available: u64, total: u64) -> CacheReport {
    let space = DiskSpace { available: available << 20, total: total << 20 };
    tool.judge_cache(&FuseOptions::parse(options), exists, space)
}

#[test]
fn a_cache_is_short_by_what_is_missing() {
    let verdict = |options, available| judge(FuseTool::S3fs, options, true, available, 100_000).verdict;
    assert_eq!(verdict("", 49), CacheVerdict::Short { missing: 1 });
    assert_eq!(verdict("", 50), CacheVerdict::EnoughForNewer);
    assert_eq!(verdict("", 60), CacheVerdict::Enough);
    assert_eq!(verdict("-oensure_diskfree=10", 59), CacheVerdict::Short { missing: 1 });
    assert_eq!(verdict("-oensure_diskfree=10", 60), CacheVerdict::Enough);
}

#[test]
fn the_largest_ensure_diskfree_is_exactly_what_fits() {
    for tool in [FuseTool::S3fs, FuseTool::Ossfs, FuseTool::Cosfs] {
        let largest = |available| judge(tool, "", true, available, 100_000).largest_ensure_diskfree;
        assert_eq!(largest(59), None, "{tool}");
        let fits = largest(1000).unwrap();
        let verdict = |ensured| judge(tool, &format!("-oensure_diskfree={ensured}"), true, 1000, 100_000).verdict;
        assert_eq!(
            (verdict(fits), verdict(fits + 1)),
            (CacheVerdict::Enough, CacheVerdict::Short { missing: 1 }),
            "{tool}"
        );
    }
    assert_eq!(judge(FuseTool::S3fs, "", true, 1000, 100_000).largest_ensure_diskfree, Some(950));
    assert_eq!(judge(FuseTool::Cosfs, "", true, 1000, 100_000).largest_ensure_diskfree, Some(990));
}

/// B63: 100 GB a part, since the number was taken for something else than MiB.
#[test]
fn a_size_in_the_wrong_unit_is_suspected() {
    let report = judge(FuseTool::Ossfs, "-omultipart_size=102400", true, 300 << 10, 400 << 10);
    assert_eq!((report.parts, report.verdict), (500 << 10, CacheVerdict::Short { missing: 200 << 10 }));
    assert!(report.parts_are_suspicious());
    assert!(report.to_string().contains("multipart_size is in MiB"), "{report}");
    assert!(!judge(FuseTool::Ossfs, "", true, 300 << 10, 400 << 10).parts_are_suspicious());
}

#[test]
fn no_directory_is_told_from_no_room() {
    let cosfs = judge(FuseTool::Cosfs, "-ouse_cache=/no", false, 100_000, 100_000);
    assert_eq!(cosfs.verdict, CacheVerdict::NoDirectory);
    assert!(cosfs.to_string().starts_with("/no does not exist; cosfs calls that a lack of disk space"), "{cosfs}");
    let s3fs = judge(FuseTool::S3fs, "-ouse_cache=/no", false, 100_000, 100_000);
    assert_eq!((s3fs.verdict, s3fs.exists), (CacheVerdict::Enough, false));
    assert!(s3fs.to_string().contains("the directory does not exist"), "{s3fs}");
}

#[test]
fn this_hosts_disk_is_looked_at() {
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("a/b");
    let look = |path: &std::path::Path| {
        let options = FuseOptions::parse(&format!("-ouse_cache={}", path.display()));
        FuseTool::Cosfs.check_cache(&options).unwrap()
    };
    let there = look(directory.path());
    assert!(there.exists && there.space.available <= there.space.total && there.space.total > 0, "{there:?}");
    assert_eq!((look(&missing).exists, look(&missing).verdict), (false, CacheVerdict::NoDirectory));
    assert_eq!(look(&missing).space.total, there.space.total);
    assert_eq!(DiskSpace::of(&missing).unwrap_err().kind(), rbd::ErrorKind::NotFound);
}
