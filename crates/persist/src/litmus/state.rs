//! A state of the litmus model in 64 bits: program counters, the stage of each operation, the copies' stages, and
//! whether the NIC has reset.

use crate::step::{Item, Party};

/// The place of an operation and its data, in the order of the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    Unposted,
    Queued,
    Nic,
    Visible,
    Cache,
    Controller,
    Lost,
}

const STAGES: [Stage; 7] = [
    Stage::Unposted,
    Stage::Queued,
    Stage::Nic,
    Stage::Visible,
    Stage::Cache,
    Stage::Controller,
    Stage::Lost,
];

/// Operations of a requester that fit into a state.
pub(super) const OPERATIONS_MAX: usize = 14;
/// Steps of a party that fit into a state.
pub(super) const STEPS_MAX: usize = 15;

/// A state of a machine.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct State(pub u64);

const STAGE_BITS: u32 = 3;
const COPIES_AT: u32 = STAGE_BITS * OPERATIONS_MAX as u32;
const REQUESTER_AT: u32 = COPIES_AT + 2 * STAGE_BITS;
const RESPONDER_AT: u32 = REQUESTER_AT + 4;
const RESET_AT: u32 = RESPONDER_AT + 4;
const _: () = assert!(RESET_AT < 64);

impl State {
    pub const START: Self = Self(0);

    fn field(self, at: u32, bits: u32) -> u64 {
        self.0 >> at & ((1 << bits) - 1)
    }

    fn with_field(self, at: u32, bits: u32, value: u64) -> Self {
        Self(self.0 & !(((1 << bits) - 1) << at) | value << at)
    }

    pub fn stage(self, op: usize) -> Stage {
        STAGES[self.field(op as u32 * STAGE_BITS, STAGE_BITS) as usize]
    }

    pub fn with_stage(self, op: usize, stage: Stage) -> Self {
        self.with_field(op as u32 * STAGE_BITS, STAGE_BITS, stage as u64)
    }

    /// The stage of the copy of `item` at its place.
    pub fn copy(self, item: Item) -> Stage {
        STAGES[self.field(COPIES_AT + item as u32 * STAGE_BITS, STAGE_BITS) as usize]
    }

    pub fn with_copy(self, item: Item, stage: Stage) -> Self {
        self.with_field(
            COPIES_AT + item as u32 * STAGE_BITS,
            STAGE_BITS,
            stage as u64,
        )
    }

    pub fn requester(self) -> usize {
        self.field(REQUESTER_AT, 4) as usize
    }

    pub fn responder(self) -> usize {
        self.field(RESPONDER_AT, 4) as usize
    }

    pub fn advanced(self, party: Party) -> Self {
        Self(
            self.0
                + (1 << if party == Party::Requester {
                    REQUESTER_AT
                } else {
                    RESPONDER_AT
                }),
        )
    }

    pub fn has_reset(self) -> bool {
        self.field(RESET_AT, 1) == 1
    }

    /// Marks the NIC of the responder as reset.
    pub fn with_reset(self) -> Self {
        self.with_field(RESET_AT, 1, 1)
    }

    /// Whether the data of `op` is visible.
    pub fn is_placed(self, op: usize) -> bool {
        matches!(
            self.stage(op),
            Stage::Visible | Stage::Cache | Stage::Controller
        )
    }
}
