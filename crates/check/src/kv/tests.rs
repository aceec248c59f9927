//! Stories of the explorer, with the store of one server.

use std::cell::Cell;
use std::rc::Rc;

use stonecast_fabric_sim::World;

use crate::explorer::{Effort, Explorer, Judge};
use crate::kv::client::Work;
use crate::kv::contents::Contents;
use crate::kv::drive::{run, server};
use crate::kv::keys;
use crate::kv::setup::Setup;
use crate::kv::subject::Kv;
use crate::lab::Lab;
use crate::violation::Violation;
use crate::wrecks::Wrecks;

/// A judge that counts its judgements.
#[derive(Default)]
struct Counting(Cell<u64>);

impl Judge<Contents> for Counting {
    fn judge(&self, _: &Contents) -> Result<(), Violation> {
        self.0.update(|count| count + 1);
        Ok(())
    }

    fn judge_again(&self, _: &Contents, _: &Contents) -> Result<(), Violation> {
        Ok(())
    }
}

/// Fails without the judgement in `tear_again`: a store that is empty after two torn headers would pass.
#[test]
fn the_end_of_every_cut_recovery_is_judged_even_after_torn_headers() {
    let setup = Setup::short(1);
    let world = World::new(1);
    let node = server(&world, &setup);
    let names = (0..setup.keys).map(keys::name).collect();
    let subject = Kv::new(Work::new(setup.clone(), names));
    let effort = Effort {
        states: 1,
        states_again: 0,
        cut_percent: 100,
    };
    let lab = Rc::new(Lab::new(subject, [setup.machine]));
    let mut explorer = Explorer::new(lab, effort, 1);
    let judge = Counting::default();
    for _ in 0..40 {
        let wrecks = Wrecks::new(vec![world.wreck(node.machine, &node.module)]);
        let remains = explorer.remains(wrecks);
        assert!(explorer.explore(&remains, &judge).is_none());
    }
    assert!(explorer.states > explorer.cut, "some headers were torn");
    assert_eq!(judge.0.get(), explorer.cut);
}

/// The first seeds that have values in chunks: a share of all seeds, with the choices that the seeds had without them.
#[test]
fn whatever_befalls_a_server_no_value_in_chunks_is_torn_or_lost() {
    let chunked = (0..).map(Setup::lite).filter(|it| it.chunked_percent > 0);
    for setup in chunked.take(3) {
        let report = run("kv-lite", &setup, false);
        assert_eq!(report.violations, [], "seed {}", setup.seed);
    }
}
