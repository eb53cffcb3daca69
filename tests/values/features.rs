//! Features by bit and by name, and the plans for changing them.

use proptest::prelude::*;
use rbd::feature::{Cascade, FeatureChange, FeaturePlan};
use rbd::{Details, Error, ErrorKind, Features};

fn bits(bits: u64) -> Features {
    Features::from_bits_retain(bits)
}

fn named(text: &str) -> Features {
    text.parse().unwrap()
}

/// The steps of a plan, as text.
fn steps(plan: &FeaturePlan) -> Vec<String> {
    plan.steps().iter().map(ToString::to_string).collect()
}

/// The kind of an error and the features that its details name.
fn refusal(result: Result<FeaturePlan, Error>) -> (ErrorKind, Features) {
    let error = result.unwrap_err();
    match error.details() {
        Details::Features(features) => (error.kind(), *features),
        other => panic!("{other:?}"),
    }
}

#[cfg(feature = "librados")]
#[test]
fn bits_names_and_groups_are_those_of_the_c_header() {
    use ceph_sys as c;
    for (bit, name) in [
        (c::RBD_FEATURE_LAYERING, c::RBD_FEATURE_NAME_LAYERING),
        (c::RBD_FEATURE_STRIPINGV2, c::RBD_FEATURE_NAME_STRIPINGV2),
        (c::RBD_FEATURE_EXCLUSIVE_LOCK, c::RBD_FEATURE_NAME_EXCLUSIVE_LOCK),
        (c::RBD_FEATURE_OBJECT_MAP, c::RBD_FEATURE_NAME_OBJECT_MAP),
        (c::RBD_FEATURE_FAST_DIFF, c::RBD_FEATURE_NAME_FAST_DIFF),
        (c::RBD_FEATURE_DEEP_FLATTEN, c::RBD_FEATURE_NAME_DEEP_FLATTEN),
        (c::RBD_FEATURE_JOURNALING, c::RBD_FEATURE_NAME_JOURNALING),
        (c::RBD_FEATURE_DATA_POOL, c::RBD_FEATURE_NAME_DATA_POOL),
        (c::RBD_FEATURE_OPERATIONS, c::RBD_FEATURE_NAME_OPERATIONS),
        (c::RBD_FEATURE_MIGRATING, c::RBD_FEATURE_NAME_MIGRATING),
        (c::RBD_FEATURE_NON_PRIMARY, c::RBD_FEATURE_NAME_NON_PRIMARY),
        (c::RBD_FEATURE_DIRTY_CACHE, c::RBD_FEATURE_NAME_DIRTY_CACHE),
    ] {
        assert_eq!(bits(bit).to_string(), name.to_str().unwrap());
        assert_eq!(named(name.to_str().unwrap()), bits(bit));
    }
    assert_eq!(Features::MUTABLE.bits(), c::RBD_FEATURES_MUTABLE & !c::RBD_FEATURES_MUTABLE_INTERNAL);
    assert_eq!(Features::DISABLE_ONLY.bits(), c::RBD_FEATURES_DISABLE_ONLY);
    assert_eq!(Features::INCOMPATIBLE.bits(), c::RBD_FEATURES_INCOMPATIBLE);
}

#[test]
fn features_are_written_as_rbd_info_does() {
    assert_eq!(bits(0x3d).to_string(), "layering, exclusive-lock, object-map, fast-diff, deep-flatten");
    assert_eq!(bits(0).to_string(), "");
    assert_eq!(bits(0xfff).names().count(), 12);
}

#[test]
fn features_are_read_with_commas_or_blanks() {
    for text in ["object-map,fast-diff", "object-map fast-diff", " object-map,\tfast-diff,\n", "fast-diff, object-map"]
    {
        assert_eq!(named(text), bits(0x18), "{text:?}");
    }
    assert_eq!(named("journaling,journaling"), bits(0x40));
    assert_eq!(named(" , "), Features::empty());
}

#[test]
fn bits_without_a_name_are_kept() {
    assert_eq!(bits(0x1_0000_0000_1001).to_string(), "layering, 0x1000000001000");
    assert_eq!(named("layering, 0x1000000001000"), bits(0x1_0000_0000_1001));
    assert_eq!(bits(1 << 63).bits() & (!bits(1)).bits(), 1 << 63);
}

#[test]
fn an_unknown_feature_is_an_error_that_names_it() {
    for (text, word) in [
        ("layering,exclusive-look", "exclusive-look"),
        ("Object-Map", "Object-Map"),
        ("object_map", "object_map"),
        ("12", "12"),
        ("0x", "0x"),
        ("0x+1", "0x+1"),
        ("0x10000000000000000", "0x10000000000000000"),
        ("layering;striping", "layering;striping"),
    ] {
        let error = text.parse::<Features>().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert_eq!(error.object(), Some(format!("{word:?}").as_str()));
    }
}

#[test]
fn the_kernels_mask_is_read_with_its_newline() {
    assert_eq!(Features::parse_kernel_mask("0x1bf\n").unwrap(), bits(0x1bf));
    assert_eq!(Features::parse_kernel_mask("0x000000000000003d\n").unwrap(), bits(0x3d));
    assert_eq!(Features::parse_kernel_mask("0xffffffffffffffff").unwrap(), bits(u64::MAX));
    for text in ["", "\n", "0x", "1bf", "0x1bg\n", "0x-1", "0x10000000000000000", "0x1 0x2"] {
        assert_eq!(Features::parse_kernel_mask(text).unwrap_err().kind(), ErrorKind::InvalidInput, "{text:?}");
    }
}

#[test]
fn what_a_kernel_lacks_is_split_by_whether_it_can_be_disabled() {
    let lacking = bits(0xbd).unsupported_by(bits(0x7));
    assert_eq!((lacking.disable, lacking.permanent), (bits(0x38), bits(0x80)));
    assert!(bits(0x3d).unsupported_by(bits(0x1bf)).is_empty());
    let journaling = bits(0x7d).unsupported_by(bits(0x1bf));
    assert_eq!((journaling.disable, journaling.permanent), (bits(0x40), bits(0)));
    // A feature of the future can be neither supported nor disabled.
    let future = bits(1 << 40).unsupported_by(bits(0x1bf));
    assert_eq!((future.disable, future.permanent), (bits(0), bits(1 << 40)));
    // A read-only map needs less.
    assert!((bits(0x7d) & Features::INCOMPATIBLE).unsupported_by(bits(0x1bf)).is_empty());
}

#[test]
fn disabling_the_lock_alone_names_what_depends_on_it() {
    let (kind, features) = refusal(FeaturePlan::disable(bits(0x3d), Features::EXCLUSIVE_LOCK, Cascade::No));
    assert_eq!((kind, features), (ErrorKind::FeatureDependency, named("object-map,fast-diff")));
    let (_, features) = refusal(FeaturePlan::disable(bits(0x7d), Features::EXCLUSIVE_LOCK, Cascade::No));
    assert_eq!(features, named("object-map,fast-diff,journaling"));
    let (_, features) = refusal(FeaturePlan::disable(bits(0x45), Features::EXCLUSIVE_LOCK, Cascade::No));
    assert_eq!(features, Features::JOURNALING);
}

#[test]
fn a_refusal_reads_as_a_sentence() {
    let error = FeaturePlan::disable(bits(0x3d), Features::EXCLUSIVE_LOCK, Cascade::No).unwrap_err();
    assert_eq!(
        error.to_string(),
        "disable exclusive-lock: other features must be changed first: object-map, fast-diff; a cascade changes them too"
    );
    let error = FeaturePlan::enable(bits(0x1), named("deep-flatten,journaling"), Cascade::No).unwrap_err();
    assert_eq!(error.to_string(), "enable deep-flatten, journaling: features cannot be changed: deep-flatten");
}

#[test]
fn a_cascade_disables_in_the_order_that_librbd_wants() {
    let plan = FeaturePlan::disable(bits(0x3d), Features::EXCLUSIVE_LOCK, Cascade::Yes).unwrap();
    assert_eq!(steps(&plan), ["disable object-map, fast-diff", "disable exclusive-lock"]);
    assert_eq!(plan.implied(), named("object-map,fast-diff"));

    let all = named("exclusive-lock,object-map,fast-diff,journaling,deep-flatten");
    let plan = FeaturePlan::disable(bits(0x7d), all, Cascade::No).unwrap();
    assert_eq!(
        steps(&plan),
        ["disable object-map, fast-diff", "disable journaling", "disable exclusive-lock", "disable deep-flatten"]
    );
    assert_eq!(plan.implied(), Features::empty());
}

#[test]
fn object_map_and_fast_diff_go_together() {
    for (one, other) in [(Features::OBJECT_MAP, Features::FAST_DIFF), (Features::FAST_DIFF, Features::OBJECT_MAP)] {
        let refused = refusal(FeaturePlan::disable(bits(0x3d), one, Cascade::No));
        assert_eq!(refused, (ErrorKind::FeatureDependency, other));
        let plan = FeaturePlan::disable(bits(0x3d), one, Cascade::Yes).unwrap();
        assert_eq!(steps(&plan), ["disable object-map, fast-diff"]);

        let refused = refusal(FeaturePlan::enable(bits(0x5), one, Cascade::No));
        assert_eq!(refused, (ErrorKind::FeatureDependency, other));
        let plan = FeaturePlan::enable(bits(0x5), one, Cascade::Yes).unwrap();
        assert_eq!(steps(&plan), ["enable object-map, fast-diff"]);
    }
    // An image of an old client may have one without the other.
    let plan = FeaturePlan::disable(bits(0xd), Features::OBJECT_MAP, Cascade::No).unwrap();
    assert_eq!(steps(&plan), ["disable object-map"]);
    let plan = FeaturePlan::enable(bits(0xd), Features::FAST_DIFF, Cascade::No).unwrap();
    assert_eq!(steps(&plan), ["enable fast-diff"]);
}

#[test]
fn what_is_already_so_is_no_step() {
    let plan = FeaturePlan::disable(bits(0x3d), Features::JOURNALING, Cascade::No).unwrap();
    assert_eq!((plan.steps(), plan.already()), (&[][..], Features::JOURNALING));
    assert_eq!(plan.to_string(), "nothing to change");

    let plan = FeaturePlan::enable(bits(0x3d), named("layering,journaling"), Cascade::No).unwrap();
    assert_eq!(steps(&plan), ["enable journaling"]);
    assert_eq!(plan.already(), Features::LAYERING);

    // Even what could never be changed, if it is as wanted.
    let plan = FeaturePlan::disable(bits(0x3d), named("striping,data-pool,0x1000"), Cascade::No).unwrap();
    assert_eq!((plan.steps(), plan.already()), (&[][..], named("striping,data-pool,0x1000")));
}

#[test]
fn what_can_never_be_changed_is_named() {
    for fixed in
        ["layering", "striping", "data-pool", "operations", "migrating", "non-primary", "dirty-cache", "0x1000"]
    {
        let fixed = named(fixed);
        let wanted = fixed | Features::JOURNALING;
        let refused = refusal(FeaturePlan::disable(bits(u64::MAX), wanted, Cascade::Yes));
        assert_eq!(refused, (ErrorKind::FeatureImmutable, fixed));
        let refused = refusal(FeaturePlan::enable(bits(0), wanted, Cascade::Yes));
        assert_eq!(refused, (ErrorKind::FeatureImmutable, fixed));
    }
}

#[test]
fn deep_flatten_goes_for_good() {
    let plan = FeaturePlan::disable(bits(0x3d), named("deep-flatten"), Cascade::No).unwrap();
    assert_eq!(plan.irreversible(), Features::DEEP_FLATTEN);
    assert_eq!(plan.to_string(), "disable deep-flatten (for good)");
    let refused = refusal(FeaturePlan::enable(bits(0x1d), named("deep-flatten"), Cascade::Yes));
    assert_eq!(refused, (ErrorKind::FeatureImmutable, Features::DEEP_FLATTEN));
    let plan = FeaturePlan::disable(bits(0x3d), named("object-map,fast-diff"), Cascade::No).unwrap();
    assert_eq!(plan.irreversible(), Features::empty());
}

#[test]
fn enabling_goes_the_other_way_round() {
    let refused = refusal(FeaturePlan::enable(bits(0x1), Features::JOURNALING, Cascade::No));
    assert_eq!(refused, (ErrorKind::FeatureDependency, Features::EXCLUSIVE_LOCK));

    let plan = FeaturePlan::enable(bits(0x1), named("journaling,object-map"), Cascade::Yes).unwrap();
    assert_eq!(steps(&plan), ["enable exclusive-lock", "enable object-map, fast-diff", "enable journaling"]);
    assert!(plan.steps().iter().all(|step| step.change == FeatureChange::Enable));
    assert!(plan.needs_rebuild());
    assert_eq!(
        plan.to_string(),
        "enable exclusive-lock (implied); enable object-map, fast-diff; enable journaling; then rebuild the object map"
    );
    assert!(!FeaturePlan::enable(bits(0x5), Features::JOURNALING, Cascade::No).unwrap().needs_rebuild());
    assert!(!FeaturePlan::disable(bits(0x3d), Features::MUTABLE, Cascade::No).unwrap().needs_rebuild());
}

#[test]
fn an_image_becomes_mappable_where_the_kernel_lacks_only_what_can_go() {
    let plan = FeaturePlan::mappable_by(bits(0x7d), bits(0x1bf)).unwrap();
    assert_eq!(steps(&plan), ["disable journaling"]);
    let plan = FeaturePlan::mappable_by(bits(0x3d), bits(0x7)).unwrap();
    assert_eq!(steps(&plan), ["disable object-map, fast-diff", "disable deep-flatten"]);
    // Without a lock there is no object map, even if the kernel had one.
    let plan = FeaturePlan::mappable_by(bits(0x1d), bits(0x19)).unwrap();
    assert_eq!(steps(&plan), ["disable object-map, fast-diff", "disable exclusive-lock"]);
    assert_eq!(plan.implied(), named("object-map,fast-diff"));
    assert!(FeaturePlan::mappable_by(bits(0x3d), bits(0x1bf)).unwrap().steps().is_empty());

    let refused = refusal(FeaturePlan::mappable_by(bits(0xbd), bits(0x7)));
    assert_eq!(refused, (ErrorKind::FeatureImmutable, Features::DATA_POOL));
}

#[cfg(feature = "serde")]
#[test]
fn features_and_plans_are_serialised_by_name() {
    assert_eq!(serde_json::to_string(&bits(0x1005)).unwrap(), r#"["layering","exclusive-lock","0x1000"]"#);
    let plan = FeaturePlan::disable(bits(0x3d), named("fast-diff,journaling"), Cascade::Yes).unwrap();
    assert_eq!(
        serde_json::to_value(&plan).unwrap(),
        serde_json::json!({
            "change": "disable",
            "steps": [{ "change": "disable", "features": ["object-map", "fast-diff"] }],
            "already": ["journaling"],
            "implied": ["object-map"],
        })
    );
}

/// What librbd does with a call of `rbd_update_features`, or `None` where it answers EINVAL
/// (`EnableFeaturesRequest`, `DisableFeaturesRequest`; tried on 16.2).
fn librbd(current: Features, change: FeatureChange, features: Features) -> Option<Features> {
    let maps = named("object-map,fast-diff");
    let with_maps = if features.intersects(maps) { features | maps } else { features };
    let (allowed, new) = match change {
        FeatureChange::Enable => (Features::MUTABLE.difference(current), current | with_maps),
        FeatureChange::Disable => {
            ((Features::MUTABLE | Features::DEEP_FLATTEN) & current, current.difference(with_maps))
        }
    };
    let needs_lock = new.intersects(maps | Features::JOURNALING) && !new.contains(Features::EXCLUSIVE_LOCK);
    (allowed.contains(features) && !needs_lock).then_some(new)
}

/// A set that an image can have.
fn any_current() -> impl Strategy<Value = Features> {
    (0..0x1000_u64).prop_map(bits).prop_map(|features| {
        let dependent = named("object-map,fast-diff,journaling");
        if features.contains(Features::EXCLUSIVE_LOCK) { features } else { features.difference(dependent) }
    })
}

proptest! {
    #[test]
    fn every_set_is_read_as_it_was_written(raw in any::<u64>()) {
        prop_assert_eq!(bits(raw).to_string().parse::<Features>().unwrap(), bits(raw));
        prop_assert_eq!(Features::parse_kernel_mask(&format!("{raw:#x}\n")).unwrap(), bits(raw));
    }

    #[test]
    fn no_text_makes_features_panic(text in any::<String>()) {
        let _ = text.parse::<Features>();
        let _ = Features::parse_kernel_mask(&text);
    }

    #[test]
    fn every_plan_passes_librbd_and_ends_as_wanted(
        current in any_current(), wanted in (0..0x1000_u64).prop_map(bits), enable in any::<bool>(), cascade in any::<bool>()
    ) {
        let cascade = if cascade { Cascade::Yes } else { Cascade::No };
        let plan = if enable {
            FeaturePlan::enable(current, wanted, cascade)
        } else {
            FeaturePlan::disable(current, wanted, cascade)
        };
        match plan {
            Ok(plan) => {
                let mut features = current;
                for step in plan.steps() {
                    let next = librbd(features, step.change, step.features);
                    // No more changes than the step says.
                    prop_assert_eq!(next, Some(features.symmetric_difference(step.features)));
                    features = next.unwrap();
                }
                let changed = wanted.difference(plan.already()) | plan.implied();
                prop_assert_eq!(features, current.symmetric_difference(changed));
                prop_assert!(cascade == Cascade::Yes || plan.implied().is_empty());
            }
            Err(error) if error.kind() == ErrorKind::FeatureImmutable => {
                let change = if enable { wanted.difference(current) } else { wanted & current };
                let changeable = if enable { Features::MUTABLE } else { Features::MUTABLE | Features::DISABLE_ONLY };
                prop_assert!(!changeable.contains(change));
            }
            Err(error) => {
                prop_assert_eq!(error.kind(), ErrorKind::FeatureDependency);
                prop_assert_eq!(cascade, Cascade::No);
            }
        }
    }

    #[test]
    fn a_kernel_supports_what_its_plan_leaves(current in any_current(), mask in (0..0x1000_u64).prop_map(bits)) {
        if let Ok(plan) = FeaturePlan::mappable_by(current, mask) {
            let left = plan.steps().iter().fold(current, |features, step| features.difference(step.features));
            prop_assert!(left.unsupported_by(mask).is_empty());
        } else {
            prop_assert!(!current.unsupported_by(mask).permanent.is_empty());
        }
    }
}
