//! The mishaps that a run causes, beside the faults of hardware. Each mishap comes after a number of answers that the
//! seed draws.

use rand::RngExt as _;
use stonecast_base::Random;

use crate::appends::setup::Setup;

/// A mishap at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mishap {
    ReceiverKilled,
    SenderKilled,
    PowerCut,
    Partition,
    NicReset,
    SlowNic,
    HostHung,
    SenderPaused,
    Suspended,
    Dismissed,
}

/// Draws the mishaps of a run of `setup`, the latest first. Each mishap has the number of answers after which it comes.
pub(super) fn schedule(setup: &Setup, random: &mut Random) -> Vec<(u64, Mishap)> {
    let faults = &setup.faults;
    let mut mishaps = Vec::new();
    let mut add = |count: u64, mishap: &[Mishap]| {
        for _ in 0..count {
            let after = random.random_range(0..setup.entries);
            mishaps.push((after, mishap[random.random_range(0..mishap.len())]));
        }
    };
    add(
        faults.process_kills,
        &[Mishap::ReceiverKilled, Mishap::SenderKilled],
    );
    add(faults.power_cuts, &[Mishap::PowerCut]);
    add(faults.partitions, &[Mishap::Partition]);
    add(faults.nic_resets, &[Mishap::NicReset]);
    add(faults.slow_nic_factor.min(1), &[Mishap::SlowNic]);
    add(faults.host_pauses, &[Mishap::HostHung]);
    add(faults.client_pauses, &[Mishap::SenderPaused]);
    add(setup.suspensions, &[Mishap::Suspended]);
    add(setup.dismissals, &[Mishap::Dismissed]);
    mishaps.sort_by_key(|(after, _)| std::cmp::Reverse(*after));
    mishaps
}
