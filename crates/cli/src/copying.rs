//! The copies of a node, for `stat` and `cluster status --ask`.

use serde::Serialize;
use stonecast_kv::Copying;

use crate::output;

/// The numbers of a node. Sizes are bytes.
#[derive(Serialize)]
pub struct CopyingReport {
    epoch: u64,
    leads: u64,
    term_max: u64,
    lease_left_ns: u64,
    copies: u64,
    joins: u64,
    peers: u64,
    peers_linked: u64,
    behind_entries: u64,
    behind_entries_max: u64,
    unsettled_bytes: u64,
    fills: u64,
    filled_bytes: u64,
    fill_left_bytes: u64,
    lost_copies: u64,
    full_copies: u64,
    appended_bytes: u64,
    digested_bytes: u64,
    replicas: u64,
    min_copies: u64,
    primaries: u64,
    short: u64,
    below_min: u64,
}

impl CopyingReport {
    /// The numbers of a node; `None`: the server is in no cluster.
    pub fn of(copying: &Copying) -> Option<Self> {
        (copying.epoch > 0).then_some(Self {
            epoch: copying.epoch,
            leads: copying.leads,
            term_max: copying.term_max,
            lease_left_ns: copying.lease_left_ns,
            copies: copying.copies,
            joins: copying.joins,
            peers: copying.peers,
            peers_linked: copying.peers_linked,
            behind_entries: copying.behind_entries,
            behind_entries_max: copying.behind_entries_max,
            unsettled_bytes: copying.unsettled_bytes,
            fills: copying.fills,
            filled_bytes: copying.filled_bytes,
            fill_left_bytes: copying.fill_left_bytes,
            lost_copies: copying.lost,
            full_copies: copying.full,
            appended_bytes: copying.appended_bytes,
            digested_bytes: copying.digested_bytes,
            replicas: copying.replicas,
            min_copies: copying.min_copies,
            primaries: copying.primaries,
            short: copying.short,
            below_min: copying.below_min,
        })
    }

    /// The state of the copies, in words.
    pub fn words(&self) -> String {
        let mut words = format!(
            "leads {} shards, keeps {} more copies",
            self.leads, self.copies
        );
        if self.joins > 0 {
            words += &format!(", is being filled with {}", self.joins);
        }
        words += &match self.behind_entries {
            0 => "; other copies have everything".to_owned(),
            behind => format!(
                "; other copies lack {behind} entries, at most {} of them one copy",
                self.behind_entries_max
            ),
        };
        if self.primaries > self.leads {
            words += &format!(
                "; does not serve {} shards yet",
                self.primaries - self.leads
            );
        }
        let away = self.peers - self.peers_linked;
        if away > 0 {
            words += &format!("; {away} of {} other nodes take no entries", self.peers);
        }
        if self.fills > 0 {
            words += &format!(
                "; fills {} copies, with {} so far and about {} left",
                self.fills,
                output::size(self.filled_bytes),
                output::size(self.fill_left_bytes)
            );
        }
        words
    }
}
