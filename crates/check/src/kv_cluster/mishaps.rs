//! The mishaps that a run causes, beside the faults of hardware. Each mishap comes after a number of answers that the
//! seed draws.

use rand::RngExt as _;
use stonecast_base::Random;

use crate::kv_cluster::setup::Setup;

/// A mishap at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mishap {
    NodeKilled,
    ClientKilled,
    PowerCut,
    PowerCutOfAll,
    Partition,
    NicReset,
    SlowNic,
    NodeHung,
    ClientPaused,
    Suspended,
    Failover,
    Drain,
    Move,
}

/// Draws the mishaps of a run of `setup`, the latest first.
pub(super) fn schedule(setup: &Setup, random: &mut Random) -> Vec<(u64, Mishap)> {
    let faults = &setup.faults;
    let mut mishaps = Vec::new();
    let mut add = |count: u64, kinds: &[Mishap]| {
        for _ in 0..count {
            let after = random.random_range(0..setup.operations);
            mishaps.push((after, kinds[random.random_range(0..kinds.len())]));
        }
    };
    add(
        faults.process_kills,
        &[Mishap::NodeKilled, Mishap::NodeKilled, Mishap::ClientKilled],
    );
    add(
        faults.power_cuts,
        &[Mishap::PowerCut, Mishap::PowerCut, Mishap::PowerCutOfAll],
    );
    add(faults.partitions, &[Mishap::Partition]);
    add(faults.nic_resets, &[Mishap::NicReset]);
    add(faults.slow_nic_factor.min(2), &[Mishap::SlowNic]);
    add(faults.host_pauses, &[Mishap::NodeHung, Mishap::Suspended]);
    add(faults.client_pauses, &[Mishap::ClientPaused]);
    add(setup.failovers, &[Mishap::Failover]);
    add(setup.requests, &[Mishap::Drain, Mishap::Move, Mishap::Move]);
    mishaps.sort_by_key(|(after, _)| std::cmp::Reverse(*after));
    mishaps
}
