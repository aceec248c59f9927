//! The counts and bounds of a back-end.

use stonecast_structures::shapes::StructureKind;
use stonecast_structures::{FrontEndError, Key as _, ReaderCounts, Verb};

use super::scene::{LEASE_NS, Scene, create, insert, operation};

/// Needs the quota, and the look of the back-end at the log.
#[test]
fn a_domain_gets_no_more_memory_than_its_quota_and_its_state_shows_its_lags() {
    let scene = Scene::new(12);
    let world = scene.world.clone();
    world.block_on(async move {
        scene.create().await;
        scene.serve_within(3).await;
        let (_process, front_end) = scene.front_end().await;
        let domain = front_end.create_domain(2).await.expect("there is room");
        let mut writer = front_end.writer(domain).await.expect("the domain is free");
        let tree = create(&mut writer, StructureKind::BTree).await;
        for key in 0..9 {
            insert(&mut writer, tree, key).await;
        }
        writer.publish().await.expect("the tenure lasts");
        for key in 9..12 {
            insert(&mut writer, tree, key).await;
        }
        writer.flush().await.expect("the tenure lasts");
        let stat = front_end.stat(domain).await.expect("there is the domain");
        assert_eq!((stat.tenure, stat.published, stat.staged), (1, 10, 3));
        assert!(stat.log_used > 0 && stat.log_used < stat.log_size);
        assert_eq!(stat.slabs, 2);

        let (mut kept, long) = (0_u64, vec![1; 20_000]);
        let refused = loop {
            let key = (100 + kept).encoded();
            let push = operation(tree, Verb::Insert, &key, &long);
            if let Err(error) = writer.stage(&push).await {
                break error;
            }
            kept += 1;
            assert!(kept < 100, "the quota is no limit");
        };
        assert!(
            matches!(refused, FrontEndError::OverQuota { .. }),
            "{refused}"
        );
        writer.flush().await.expect("the tenure lasts");
        writer.release().await.expect("the tenure lasts");
        drop(scene.writer(&front_end, domain).await.release().await);
        scene.rest(LEASE_NS).await;
        let stat = front_end.stat(domain).await.expect("there is the domain");
        assert_eq!((stat.tenure, stat.staged, stat.slabs), (0, 0, 3));
        assert_eq!(stat.published, 13 + kept);
        let none = front_end
            .stat(3)
            .await
            .expect_err("there is no such domain");
        assert!(
            matches!(none, FrontEndError::NoDomain { domain: 3 }),
            "{none}"
        );
    });
}

/// Needs each count where its event happens, and the age of a snapshot to go on between two reports and to end with the
/// front-end.
#[test]
fn a_back_end_counts_tenures_slabs_and_what_readers_tell() {
    let scene = Scene::new(13);
    let world = scene.world.clone();
    world.block_on(async move {
        scene.create().await;
        scene.serve_within(3).await;
        let (_process, front_end) = scene.front_end().await;
        let before = front_end.counts().await.expect("the back-end serves");
        assert_eq!(
            (before.front_ends, before.domains, before.damaged),
            (1, 0, 0)
        );
        assert_eq!((before.quota, before.tenures_granted), (3, 0));
        assert!(before.free_slabs <= before.slabs);
        let domain = front_end.create_domain(2).await.expect("there is room");
        let writer = front_end.writer(domain).await.expect("the domain is free");
        let during = front_end.counts().await.expect("the back-end serves");
        assert_eq!((during.domains, during.tenures_granted), (1, 1));
        // Two slabs and a log.
        assert_eq!(during.free_slabs, before.free_slabs - 3);
        scene.rest(2 * LEASE_NS).await;
        let after = front_end.counts().await.expect("the back-end serves");
        assert_eq!((after.tenures_ended, after.tenures_silent), (1, 1));
        drop(writer);
        let writer = scene.writer(&front_end, domain).await;
        writer.release().await.expect("the tenure lasts");
        drop(scene.writer(&front_end, domain).await);
        let after = front_end.counts().await.expect("the back-end serves");
        assert_eq!((after.tenures_granted, after.tenures_ended), (3, 2));
        assert_eq!(after.tenures_silent, 1);

        let (other_process, other) = scene.front_end().await;
        let told = ReaderCounts {
            answers: 100,
            retries: 7,
            snapshot_age_ns: 1_000,
        };
        assert!(
            other.tell_counts(told)
                && front_end.tell_counts(ReaderCounts {
                    snapshot_age_ns: 0,
                    ..told
                })
        );
        scene.rest(1_000_000).await;
        let counted = front_end.counts().await.expect("the back-end serves");
        assert_eq!(
            (counted.readers.answers, counted.readers.retries),
            (200, 14)
        );
        let age = counted.readers.snapshot_age_ns;
        assert!((900_000..1_500_000).contains(&age), "{age}");
        drop(other);
        other_process.kill();
        scene.rest(LEASE_NS).await;
        let counted = front_end.counts().await.expect("the back-end serves");
        assert_eq!(
            (counted.front_ends, counted.readers.snapshot_age_ns),
            (1, 0)
        );
        assert_eq!(counted.readers.answers, 200);
    });
}
