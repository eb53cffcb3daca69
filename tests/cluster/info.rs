//! `Image::info` says what the real `rbd info` says, of images made in every variant.

use rbd::image::{ImageFlags, ImageInfo, ImageOptions, MirrorMode, MirrorState, OperationFeatures};
use rbd::{Features, Image, Pool};

use super::library::{OwnPool, connect, create_format_1, image, spec};
use super::support::{TestCluster, stdout};

/// Compares all that the library says of an image, or of a snapshot, with what `rbd info` says.
#[track_caller]
fn agrees(name: &str) -> ImageInfo {
    let image = connect(TestCluster::shared()).open_read_only(&spec(name)).unwrap();
    agrees_on(&image, &[name])
}

#[track_caller]
fn agrees_on(image: &Image, named: &[&str]) -> ImageInfo {
    let rbd = |format| stdout(TestCluster::shared().command("rbd", ["info", "--format", format]).args(named));
    let info = image.info().unwrap();
    // The text too: it is the order of the keys.
    assert_eq!(serde_json::to_string(&info).unwrap(), rbd("json").trim_end());
    assert_eq!(info.to_string().lines().collect::<Vec<_>>(), rbd("plain").lines().collect::<Vec<_>>());

    // The shorter questions have the same answers.
    assert_eq!(image.size().unwrap(), info.size);
    assert_eq!(image.features().unwrap(), info.features);
    assert_eq!(image.id().unwrap(), info.id);
    assert_eq!(&image.header_object().unwrap(), info.header_object());
    // The header is there, and in the image's own pool.
    image.pool().stat(info.header_object()).unwrap();
    info
}

/// Runs `rbd` on the lines, in which a `%` at the beginning of a word stands for the pool.
fn rbd(pool: &Pool, lines: &[&str]) {
    for line in lines {
        let words = line.split(' ').map(|word| match word.strip_prefix('%') {
            Some(rest) => format!("{pool}{rest}"),
            None => word.to_owned(),
        });
        TestCluster::shared().rbd(words);
    }
}

fn create(pool: &Pool, name: &str, features: Features) {
    pool.create_image(&image(name), 10 << 20, &ImageOptions::new().features(features)).unwrap();
}

const DEFAULT: Features = Features::from_bits_retain(0x3d);

#[test]
fn images_of_every_set_of_features() {
    let pool = OwnPool::new();
    let sets = [
        Features::empty(),
        Features::LAYERING,
        Features::LAYERING | Features::EXCLUSIVE_LOCK,
        Features::LAYERING | Features::EXCLUSIVE_LOCK | Features::OBJECT_MAP | Features::FAST_DIFF,
        DEFAULT,
        Features::DEEP_FLATTEN | Features::LAYERING,
        DEFAULT | Features::JOURNALING,
        Features::EXCLUSIVE_LOCK | Features::JOURNALING,
    ];
    for (number, features) in sets.into_iter().enumerate() {
        let name = format!("features-{number}");
        create(&pool, &name, features);
        let info = agrees(&pool.spec(&name));
        assert_eq!((info.format, info.features), (2, features));
        assert_eq!(
            info.journal.as_deref(),
            info.id.as_ref().map(|id| id.as_str()).filter(|_| features.bits() & 0x40 != 0)
        );
    }
}

#[test]
fn images_of_odd_sizes_and_of_every_size_of_objects() {
    let pool = OwnPool::new();
    // The largest that librbd takes without an object map is all that 64 bits hold.
    let sizes = [0, 1, 511, (1 << 30) + 1, 1025 << 30, (10 << 40) + 12345, 1 << 60, 3 << 59, u64::MAX];
    for (size, order) in sizes.into_iter().zip([12, 22, 25].into_iter().cycle()) {
        let name = format!("size-{size}");
        let options = ImageOptions::new().features(Features::LAYERING).order(order);
        pool.create_image(&image(&name), size, &options).unwrap();
        let info = agrees(&pool.spec(&name));
        assert_eq!((info.size, info.order, info.object_size), (size, order, 1 << order));
    }
}

/// Case B51: no id, no features, and the header's name is made of the image's.
#[test]
fn an_image_of_format_1() {
    let pool = OwnPool::new();
    let name = pool.spec("old image");
    create_format_1(&pool, "old image");
    let info = agrees(&name);
    assert_eq!((info.format, info.id.as_ref(), info.features), (1, None, Features::empty()));
    assert_eq!(info.header_object().as_str(), "old image.rbd");
    let snapshot = format!("{name}@first");
    TestCluster::shared().rbd(["snap", "create", "--no-progress", &snapshot]);
    assert_eq!(agrees(&name).snapshot_count, 1);
    assert_eq!(agrees(&snapshot).protected, Some(false));
}

/// Case B49: the prefix names the data pool, and the header is in the image's pool.
#[test]
fn an_image_with_its_data_in_another_pool() {
    let (pool, data) = (OwnPool::new(), OwnPool::new());
    pool.create_image(&image("data-pool"), 10 << 20, &ImageOptions::new().data_pool(data.name())).unwrap();
    let info = agrees(&pool.spec("data-pool"));
    assert_eq!(info.data_pool.as_deref(), Some(data.name().as_str()));
    assert_eq!(info.block_name_prefix.pool_id(), Some(pool.id()));
    assert!(info.features.contains(Features::DATA_POOL));
}

#[test]
fn a_striped_image() {
    let pool = OwnPool::new();
    let options = ImageOptions::new().features(Features::LAYERING | Features::STRIPING).striping(64 << 10, 16);
    pool.create_image(&image("striped"), 1 << 30, &options).unwrap();
    let striping = agrees(&pool.spec("striped")).striping.unwrap();
    assert_eq!((striping.unit, striping.count), (64 << 10, 16));
}

#[test]
fn names_that_need_care_in_text_and_json() {
    let pool = OwnPool::new();
    for name in ["my disk", " at the edges ", "tab\tand\nline", "\"quoted\\\"", "Жук 虫 🐞", "-", "'", "a,b=c"] {
        create(&pool, name, Features::LAYERING);
        let info = agrees_on(&pool.open_read_only(name).unwrap(), &["--pool", pool.name().as_str(), "--image", name]);
        assert_eq!(info.name, name);
    }
}

#[test]
fn images_in_a_namespace_and_in_groups() {
    let pool = OwnPool::new();
    let namespace = "tenant".parse().unwrap();
    rbd(&pool, &["namespace create %/tenant", "group create %/tenant/together", "group create %/together"]);
    for (pool, group) in [(&*pool, None), (&pool.in_namespace(Some(&namespace)).unwrap(), Some("tenant"))] {
        create(pool, "member", DEFAULT);
        rbd(pool, &["group image add %/together %/member", "group snap create %/together@all"]);
        let info = agrees(&format!("{pool}/member"));
        let of = info.group.unwrap();
        assert_eq!((of.namespace.as_deref(), of.name.as_str()), (group, "together"));
        assert_eq!(info.operation_features, OperationFeatures::GROUP);
        assert_eq!(info.snapshot_count, 1, "the snapshots of groups count");
    }
}

/// `rbd info` fails once the pool of the group is gone; the rest is still worth knowing.
#[test]
fn an_image_in_a_group_of_another_pool_which_then_goes() {
    let (pool, other) = (OwnPool::new(), OwnPool::new());
    create(&pool, "member", DEFAULT);
    rbd(&other, &["group create %/together", &format!("group image add %/together {}", pool.spec("member"))]);
    let mut before = agrees(&pool.spec("member"));
    assert_eq!(before.group.take().unwrap().pool, other.name().as_str());
    drop(other);
    assert_eq!(pool.open_read_only("member").unwrap().info().unwrap(), before);
}

#[test]
fn snapshots_protected_and_not_and_their_limit() {
    let pool = OwnPool::new();
    create(&pool, "image", DEFAULT);
    rbd(&pool, &["snap limit set --limit 3 %/image", "snap create --no-progress %/image@first"]);
    rbd(&pool, &["resize --no-progress --size 20M %/image", "snap create --no-progress %/image@second"]);
    rbd(&pool, &["snap protect %/image@second"]);
    let info = agrees(&pool.spec("image"));
    assert_eq!((info.snapshot_count, info.snapshot_limit, info.protected), (2, Some(3), None));
    let first = agrees(&pool.spec("image@first"));
    assert_eq!((first.size, first.protected), (10 << 20, Some(false)));
    let second = agrees(&pool.spec("image@second"));
    assert_eq!((second.size, second.protected), (20 << 20, Some(true)));
}

/// The first list has 16 places, and C wants one more than there are snapshots.
#[test]
fn as_many_snapshots_as_the_first_list_has_places() {
    let pool = OwnPool::new();
    create(&pool, "image", DEFAULT);
    for number in 1..=16 {
        rbd(&pool, &[&format!("snap create --no-progress %/image@{number}")]);
    }
    assert_eq!(agrees(&pool.spec("image")).snapshot_count, 16);
}

#[test]
fn a_clone_of_version_1_in_another_pool_and_then_flattened() {
    let (pool, other) = (OwnPool::new(), OwnPool::new());
    create(&pool, "parent", DEFAULT);
    rbd(&pool, &["snap create --no-progress %/parent@base", "snap protect %/parent@base"]);
    let clone = other.spec("clone");
    TestCluster::shared().rbd(["clone", "--rbd-default-clone-format", "1", &pool.spec("parent@base"), &clone]);
    let parent = agrees(&clone).parent.unwrap();
    assert_eq!((parent.pool.as_str(), parent.namespace.as_str()), (pool.name().as_str(), ""));
    assert_eq!((parent.image.as_str(), parent.snapshot.as_str(), parent.in_trash), ("parent", "base", false));
    assert_eq!(parent.overlap, 10 << 20);
    rbd(&other, &["resize --no-progress --allow-shrink --size 5000K %/clone", "snap create --no-progress %/clone@own"]);
    assert_eq!(agrees(&clone).parent.unwrap().overlap, 5000 << 10);
    assert!(agrees(&format!("{clone}@own")).parent.is_some());
    rbd(&other, &["flatten --no-progress %/clone"]);
    assert_eq!(agrees(&clone).parent, None);
}

#[test]
fn a_clone_of_version_2_of_a_parent_in_a_namespace_and_then_in_the_trash() {
    let pool = OwnPool::new();
    rbd(&pool, &["namespace create %/tenant"]);
    let tenant = pool.in_namespace(Some(&"tenant".parse().unwrap())).unwrap();
    create(&tenant, "parent", DEFAULT);
    rbd(&tenant, &["snap create --no-progress %/parent@base"]);
    let (base, clone) = (format!("{tenant}/parent@base"), pool.spec("clone"));
    TestCluster::shared().rbd(["clone", "--rbd-default-clone-format", "2", &base, &clone]);
    let info = agrees(&clone);
    assert_eq!(info.operation_features, OperationFeatures::CLONE_CHILD);
    assert_eq!(info.parent.unwrap().namespace, "tenant");
    assert_eq!(agrees(&format!("{tenant}/parent")).operation_features, OperationFeatures::CLONE_PARENT);

    // A snapshot that is needed still goes to the trash, and so does its image.
    rbd(&tenant, &["snap rm --no-progress %/parent@base"]);
    let info = agrees(&format!("{tenant}/parent"));
    assert_eq!(info.operation_features, OperationFeatures::CLONE_PARENT | OperationFeatures::SNAP_TRASH);
    assert_eq!(info.snapshot_count, 1, "those in the trash count");
    let parent = agrees(&clone).parent.unwrap();
    assert!(!parent.in_trash);
    rbd(&tenant, &["trash mv %/parent"]);
    let parent = agrees(&clone).parent.unwrap();
    assert_eq!((parent.in_trash, Some(parent.image_id.as_str())), (true, info.id.as_ref().map(|id| id.as_str())));
}

#[test]
fn an_image_in_the_trash_by_its_id() {
    let pool = OwnPool::new();
    create(&pool, "thrown-away", DEFAULT);
    let id = pool.open_read_only("thrown-away").unwrap().id().unwrap().unwrap();
    rbd(&pool, &["trash mv %/thrown-away"]);
    let image = pool.open_read_only_by_id(&id).unwrap();
    let info = agrees_on(&image, &["--pool", pool.name().as_str(), "--image-id", id.as_str()]);
    assert_eq!((info.name.as_str(), info.id), ("thrown-away", Some(id)));
}

#[test]
fn an_object_map_enabled_later_is_flagged() {
    let pool = OwnPool::new();
    create(&pool, "image", Features::LAYERING | Features::EXCLUSIVE_LOCK);
    rbd(&pool, &["feature enable %/image object-map"]);
    let info = agrees(&pool.spec("image"));
    assert_eq!(info.flags, ImageFlags::OBJECT_MAP_INVALID | ImageFlags::FAST_DIFF_INVALID);
}

#[test]
fn images_mirrored_by_journal_and_by_snapshots() {
    let pool = OwnPool::new();
    rbd(&pool, &["namespace create %/tenant"]);
    let tenant = pool.in_namespace(Some(&"tenant".parse().unwrap())).unwrap();
    mirrored(&pool);
    mirrored(&tenant);
}

fn mirrored(pool: &Pool) {
    rbd(pool, &["mirror pool enable % image"]);
    create(pool, "journal", DEFAULT | Features::JOURNALING);
    create(pool, "snapshot", DEFAULT);
    let journal = agrees(&format!("{pool}/journal")).mirroring.unwrap();
    assert_eq!((journal.state, journal.mode), (MirrorState::Disabled, None));
    assert_eq!(agrees(&format!("{pool}/snapshot")).mirroring, None);
    for (name, mode) in [("journal", MirrorMode::Journal), ("snapshot", MirrorMode::Snapshot)] {
        rbd(pool, &[&format!("mirror image enable %/{name} {name}")]);
        let info = agrees(&format!("{pool}/{name}"));
        let mirroring = info.mirroring.unwrap();
        assert_eq!((mirroring.state, mirroring.mode, mirroring.primary), (MirrorState::Enabled, Some(mode), true));
        rbd(pool, &[&format!("mirror image demote %/{name}")]);
        let info = agrees(&format!("{pool}/{name}"));
        assert!(!info.mirroring.unwrap().primary);
        assert_eq!(info.features.contains(Features::NON_PRIMARY), mode == MirrorMode::Snapshot);
    }
    rbd(pool, &["mirror image promote %/journal", "mirror image disable %/journal"]);
    // librbd disables the journal with it.
    assert_eq!(agrees(&format!("{pool}/journal")).mirroring, None);
}

#[test]
fn an_image_that_is_being_migrated() {
    let (pool, other) = (OwnPool::new(), OwnPool::new());
    create(&pool, "image", DEFAULT);
    TestCluster::shared().rbd(["migration", "prepare", &pool.spec("image"), &other.spec("image")]);
    assert!(agrees(&other.spec("image")).features.contains(Features::MIGRATING));
}

#[test]
fn an_image_whose_data_pool_is_gone() {
    let (pool, data) = (OwnPool::new(), OwnPool::new());
    pool.create_image(&image("orphan"), 10 << 20, &ImageOptions::new().data_pool(data.name())).unwrap();
    let missing = format!("<missing data pool {}>", data.id());
    drop(data);
    let info = agrees(&pool.spec("orphan"));
    assert_eq!(info.data_pool, Some(missing));
}
