//! The promises that the flaws R1 to R9 break. `rowan_flaws` beside this file shows that Rowan-KV as published breaks
//! them, and `crates/kv/tests/it/nodes/flaws.rs` that `kv` keeps them. Both are judged by these functions, and both
//! schedules have these numbers.

use stonecast_base::Nanoseconds;

const MS: Nanoseconds = 1_000_000;

/// The time for which a primary is cut off from its backups (R2): longer than any lease.
pub const CUT_OFF_NS: Nanoseconds = 60 * MS;
/// The time for which the software of a server stands still (R6).
pub const STANDS_STILL_NS: Nanoseconds = 400 * MS;
/// Writes that are begun at once while it does (R6).
pub const AT_ONCE: u64 = 200;
/// The time for which a client goes on to write after the software of the backups has died, and the pause between two
/// writes (R7).
pub const DEAD_NS: Nanoseconds = 500 * MS;
/// See [`DEAD_NS`].
pub const PAUSE_NS: Nanoseconds = MS;
/// The longest time for which a sign of life from a backup counts (R7).
pub const LEASE_NS: Nanoseconds = 10 * MS;

/// R1: a power cut removes an acknowledged entry from no copy. `holds` has an element for each copy: whether the copy
/// still has the entry.
pub fn all_copies_hold(holds: &[bool]) -> bool {
    !holds.is_empty() && holds.iter().all(|&holds| holds)
}

/// R2, R5: every reader sees the last acknowledged value.
pub fn all_see(acknowledged: &[u8], seen: &[Option<Vec<u8>>]) -> bool {
    !seen.is_empty()
        && seen
            .iter()
            .all(|seen| seen.as_deref() == Some(acknowledged))
}

/// R3: heirs that follow each other have the same.
pub fn heirs_agree(seen: &[Option<Vec<u8>>]) -> bool {
    seen.len() > 1 && seen.windows(2).all(|pair| pair[0] == pair[1])
}

/// R4: every heir has the value with the latest version.
pub fn latest_stays(written: &[(u64, Vec<u8>)], seen: &[Option<Vec<u8>>]) -> bool {
    let latest = written.iter().max_by_key(|(version, _)| version);
    latest.is_some_and(|(_, value)| all_see(value, seen))
}

/// R6: writes end while the server stands still. `took` has the duration of each.
pub fn nobody_waits(took: &[Nanoseconds]) -> bool {
    !took.is_empty() && took.iter().all(|&took| took < STANDS_STILL_NS / 4)
}

/// R7: nothing is acknowledged on the word of a NIC alone. `after_death` has the moments of acknowledgements, after the
/// death of the backups' software.
pub fn needs_signs_of_life(after_death: &[Nanoseconds]) -> bool {
    let longest = LEASE_NS + PAUSE_NS;
    after_death.iter().all(|&after| after < longest)
}

/// R8: *one* was written and its answer lost, *two* was written by another client, and *one* was repeated. `seen` has
/// what a reader saw after each.
pub fn takes_effect_once(seen: &[Option<Vec<u8>>]) -> bool {
    let once: [&[u8]; 3] = [b"one", b"two", b"two"];
    seen.iter().map(Option::as_deref).eq(once.map(Some))
}

/// R9: a deleted key stays away from each recovered reader.
pub fn stays_deleted(seen: &[Option<Vec<u8>>]) -> bool {
    !seen.is_empty() && seen.iter().all(Option::is_none)
}
