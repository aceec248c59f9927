//! SmallBank and TATP over structures of one lock domain: committed transactions are a serial execution, and the money
//! is there.

use stonecast_lab::asymnvm::{
    Application, ApplicationLoad, AsymStore, Mistake, Trial, measure_application, try_application,
};
use stonecast_published::asymnvm::Variant;

const SEEDS: u64 = 40;

fn try_all(application: Application) -> Trial {
    let mut all = Trial::default();
    for seed in 0..SEEDS {
        let trial = try_application(application, seed, Mistake::Nothing);
        let trial = trial.unwrap_or_else(|fault| panic!("{application:?}, seed {seed}: {fault}"));
        all.counted += trial.counted;
        all.told += trial.told;
        all.read += trial.read;
        all.tenures += trial.tenures;
    }
    all
}

/// Needs the group as one operation, the ticket behind it, and the look at the tenure behind what was read.
#[test]
fn the_money_of_a_bank_survives_every_kill_pause_and_power_cut_and_transactions_are_serial() {
    let all = try_all(Application::SmallBank);
    assert!(all.told > 2_000 && all.counted >= all.told, "{all:?}");
    assert!(all.read > 200 && all.tenures > 4 * SEEDS, "{all:?}");
}

#[test]
fn subscribers_and_their_forwardings_survive_the_same_and_transactions_are_serial() {
    let all = try_all(Application::Tatp);
    assert!(all.told > 300 && all.counted >= all.told, "{all:?}");
    assert!(all.read > 1_000 && all.tenures > 4 * SEEDS, "{all:?}");
}

#[test]
fn a_seed_means_the_same_run() {
    let run = || try_application(Application::SmallBank, 7, Mistake::Nothing);
    assert_eq!(run(), run());
}

fn finds(mistake: Mistake) -> Vec<&'static str> {
    let faults = (0..SEEDS).filter_map(|seed| {
        let trial = try_application(Application::SmallBank, seed, mistake);
        trial.err().map(|fault| fault.promise)
    });
    faults.collect()
}

/// The seeded bug of a program: a death between the changes of a transaction leaves a part of it.
#[test]
fn a_program_that_stages_the_parts_of_a_transaction_one_by_one_is_found_by_its_money() {
    let found = finds(Mistake::InParts);
    assert!(
        found.contains(&"money is neither made nor lost"),
        "{found:?}"
    );
}

#[test]
fn a_program_that_tells_a_transaction_before_its_ticket_has_ended_is_found() {
    let found = finds(Mistake::ToldEarly);
    assert!(found.contains(&"what was acknowledged counts"), "{found:?}");
}

/// Every read of a measured run is judged by the serial execution.
#[test]
fn every_store_runs_both_applications_serially() {
    let mut stores: Vec<AsymStore> = Variant::ALL.map(AsymStore::Published).to_vec();
    stores.push(AsymStore::Ours);
    for application in [Application::SmallBank, Application::Tatp] {
        for store in &stores {
            let load = ApplicationLoad::new(application, *store, 16);
            let outcome = measure_application(&load);
            let outcome = outcome.unwrap_or_else(|error| panic!("{load:?}: {error}"));
            assert!(outcome.kops > 0.0);
        }
    }
}
