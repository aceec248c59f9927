//! The mishaps that a run causes, beside the faults of hardware: ends, pauses, partitions,
//! visitors. Each comes after a number of answers that the seed draws.

use rand::RngExt as _;
use stonecast_base::Random;
use stonecast_fabric_sim::{Fault, Faults, LocalClock, World};

use crate::kv::setup::Setup;
use crate::kv::visitors::Visitor;

/// A mishap at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mishap {
    ServerClosed,
    ServerKilled,
    ClientKilled,
    PowerCut,
    WarmReset,
    Partition,
    NicReset,
    SlowNic,
    HostHung,
    ClientPaused,
    ClockJump,
    FullMedium,
    SyncFails,
    Visit(Visitor),
}

/// The mishaps of a run of `setup`, each with the number of answers after which it comes, the last
/// ones first.
pub(crate) fn schedule(setup: &Setup, random: &mut Random) -> Vec<(u64, Mishap)> {
    let Setup {
        faults, operations, ..
    } = setup;
    let mut mishaps = Vec::new();
    let mut add = |count: u64, mishap: &mut dyn FnMut(&mut Random) -> Mishap| {
        for _ in 0..count {
            let after = random.random_range(1..(*operations).max(2));
            mishaps.push((after, mishap(random)));
        }
    };
    let once = |rate: u64| u64::from(rate > 0);
    add(setup.closings, &mut |_| Mishap::ServerClosed);
    add(faults.process_kills, &mut |random| {
        if random.random() {
            Mishap::ServerKilled
        } else {
            Mishap::ClientKilled
        }
    });
    add(faults.power_cuts, &mut |_| Mishap::PowerCut);
    add(faults.warm_resets, &mut |_| Mishap::WarmReset);
    add(faults.partitions, &mut |_| Mishap::Partition);
    add(faults.nic_resets, &mut |_| Mishap::NicReset);
    add(once(faults.slow_nic_factor) * 2, &mut |_| Mishap::SlowNic);
    add(faults.host_pauses, &mut |_| Mishap::HostHung);
    add(faults.client_pauses, &mut |_| Mishap::ClientPaused);
    add(once(faults.clock_drift_ppm) * 2, &mut |_| Mishap::ClockJump);
    add(once(faults.allocation_failures_per_thousand), &mut |_| {
        Mishap::FullMedium
    });
    add(once(faults.lost_writes), &mut |_| Mishap::SyncFails);
    add(once(faults.connection_lost_per_million), &mut |_| {
        Mishap::Visit(Visitor::Crowd)
    });
    add(faults.revoked_access_attempts, &mut |_| {
        Mishap::Visit(Visitor::Evicted)
    });
    add(faults.other_version_clients, &mut |_| {
        Mishap::Visit(Visitor::OtherVersion)
    });
    add(faults.hostile_clients, &mut |_| {
        Mishap::Visit(Visitor::Hostile)
    });
    mishaps.sort_by_key(|(after, _)| std::cmp::Reverse(*after));
    mishaps
}

/// A clock with the error that `faults` gives.
pub(crate) fn clock(world: &World, faults: &Faults, random: &mut Random) -> LocalClock {
    if faults.clock_drift_ppm == 0 {
        return LocalClock::default();
    }
    world.hit(Fault::ClockDrift);
    let most = faults.clock_drift_ppm as i64;
    LocalClock {
        ahead_ns: random.random_range(0..10_000_000_000),
        drift_ppm: random.random_range(-most..=most),
    }
}
