//! Power cuts at any moment, and words that are raised behind an append.

use std::cell::Cell;
use std::rc::Rc;

use rand::RngExt as _;
use stonecast_base::random_from_seed;
use stonecast_fabric_sim::Fate;
use stonecast_media::DeclaredPlatform;
use stonecast_structures::shapes::StructureKind;
use stonecast_structures::{FrontEndError, Key as _, PoolGeometry, Verb};

use super::scene::{PLATFORMS, Scene, create, insert, keys, operation};

/// Needs every persist of the back-end, and each step of the plan by which records become durable: any part of the
/// other words may be gone.
#[test]
pub fn a_power_cut_at_any_moment_loses_no_acknowledged_operation() {
    for platform in PLATFORMS {
        let told: u64 = (0..30).map(|seed| cut_power(platform, seed)).sum();
        assert!(told > 250, "{platform:?}: {told} keys were told");
    }
}

/// Cuts the power at a random moment. Returns the number of keys that were told.
fn cut_power(platform: DeclaredPlatform, seed: u64) -> u64 {
    let mut scene = Scene::on(platform, seed);
    let world = scene.world.clone();
    world.block_on(async move {
        let mut random = random_from_seed(seed);
        scene.create().await;
        scene.serve().await;
        let (process, first) = scene.front_end().await;
        let domain = first.create_domain(3).await.expect("there is room");
        let mut writer = first.writer(domain).await.expect("the domain is free");
        let kind = match seed % 2 {
            0 => StructureKind::HashTable,
            _ => StructureKind::BTree,
        };
        let structure = create(&mut writer, kind).await;
        writer.publish().await.expect("the tenure lasts");
        let told = Rc::new(Cell::new(0));
        let telling = told.clone();
        process.runtime().spawn(Box::pin(async move {
            for key in 0..300_u64 {
                let (encoded, value) = (key.encoded(), (key * 3).to_le_bytes());
                let operation = operation(structure, Verb::Insert, &encoded, &value);
                let Ok((_, ticket)) = writer.stage(&operation).await else {
                    return;
                };
                let answered = match key % 7 {
                    0..2 => ticket.await,
                    2 => writer.flush().await,
                    3 => writer.publish().await,
                    4 => match writer.start_publication().await {
                        Ok(_publication) => continue,
                        Err(_) => return,
                    },
                    _ => continue,
                };
                match answered {
                    Ok(()) => telling.set(key + 1),
                    Err(_) => return,
                }
            }
        }));
        scene.rest(random.random_range(0..2_000_000)).await;
        let wreck = scene.world.wreck(scene.machine, &scene.module);
        let told = told.get();
        let fates: Vec<Fate> = (0..wreck.undecided())
            .map(|index| Fate {
                stores: random.random_range(0..=wreck.stores(index)),
                torn: random.random_range(0..=u8::MAX),
            })
            .collect();
        scene.world.cut_power(scene.machine);
        scene.module.restart(wreck.survivor(&fates));
        scene.back_end = scene.world.process(scene.machine);
        scene.serve().await;
        let (_process, second) = scene.front_end().await;
        let found = keys(&second, domain, structure, 310).await;
        let count = found.len() as u64;
        let case = format!("{platform:?}, seed {seed}");
        assert_eq!(found, (0..count).collect::<Vec<_>>(), "{case}");
        assert!(count >= told, "{case}: {count} of {told} keys are there");
        told
    })
}

/// Needs the look at the tenure word behind each append: a writer that could not be stopped for certain still writes to
/// its log, and a hand-over that has seen the end of the log does not count it.
#[test]
pub fn a_ticket_is_not_told_once_the_tenure_word_was_raised_though_the_window_is_open() {
    for platform in PLATFORMS {
        let scene = Scene::on(platform, 5);
        let world = scene.world.clone();
        world.block_on(async move {
            scene.create().await;
            scene.serve().await;
            let (_process, front_end) = scene.front_end().await;
            let domain = front_end.create_domain(2).await.expect("there is room");
            let mut writer = front_end.writer(domain).await.expect("the domain is free");
            let table = create(&mut writer, StructureKind::HashTable).await;
            insert(&mut writer, table, 1).await;
            writer.flush().await.expect("the tenure lasts");
            if !front_end.agreement().plan().is_one_sided() {
                return;
            }
            let word = PoolGeometry::place(domain).tenure_word();
            scene.medium().region.store(word.offset, 2);
            insert(&mut writer, table, 2).await;
            let over = writer.flush().await.expect_err("the tenure is over");
            assert!(matches!(over, FrontEndError::Over { .. }), "{over}");
        });
    }
}
