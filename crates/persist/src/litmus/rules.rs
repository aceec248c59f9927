//! The model's rules of hardware: each has one sentence and one switch.
//!
//! A freedom is a behaviour of hardware that a plan must survive; a promise is a behaviour on which a plan may rely.
//! The model can run without any one rule: [`witnesses`](super::witnesses()) names a program for each whose verdict
//! changes without it.

use crate::platform::{FlushKind, Platform, Transport};
use stonecast_media::{Ddio, PersistenceDomain, ReceiveBuffers};

macro_rules! rules {
    ($($variant:ident: $kind:ident, $name:literal, $sentence:literal, $source:literal;)+) => {
        /// A rule of hardware.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Rule {
            $(#[doc = $sentence] $variant,)+
        }

        impl Rule {
            /// All rules.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// Whether it permits a behaviour of hardware (otherwise it promises one).
            pub fn is_freedom(self) -> bool {
                match self {
                    $(Self::$variant => matches!(Kind::$kind, Kind::Freedom),)+
                }
            }

            /// The name.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }

            /// The sentence.
            pub fn sentence(self) -> &'static str {
                match self {
                    $(Self::$variant => $sentence,)+
                }
            }

            /// The source.
            pub fn source(self) -> &'static str {
                match self {
                    $(Self::$variant => $source,)+
                }
            }
        }
    };
}

enum Kind {
    Freedom,
    Promise,
}

rules! {
    PostedPassesNonPosted: Freedom, "posted passes non-posted",
        "A posted operation may take effect before an earlier flush or ATOMIC_WRITE.",
        "taxonomy 2; PCIe base specification 3.0, table 2-34";
    CompletionBeforePlacement: Freedom, "completion before placement",
        "The completion of a posted operation says that the responder's NIC has it, not that it is visible.",
        "taxonomy 2";
    EarlyIwarpCompletion: Freedom, "early iWARP completion",
        "Over iWARP the completion of a posted operation does not even say that it was sent.",
        "taxonomy 3.2";
    ControllerReorders: Freedom, "I/O controller reorders",
        "Data that is visible in the I/O controller goes on to caches or memory controllers in any order.",
        "taxonomy 2: visible in order, persistent out of order";
    EarlyEviction: Freedom, "early eviction",
        "A cache line that is visible may be written back at any moment, before any other.",
        "any write-back cache; page caches likewise";
    DdioPlacesInCache: Freedom, "DDIO places in cache",
        "With DDIO inbound writes end in the last-level cache, on a page file in the page cache.",
        "taxonomy 3.1.2";
    RelaxedWritesPass: Freedom, "relaxed writes pass",
        "With relaxed ordering inbound writes become visible in any order.",
        "PCIe base specification 3.0, table 2-34 (A2b)";
    RelaxedReadDoesNotPush: Freedom, "relaxed READ does not push",
        "With relaxed ordering the answer of a READ says nothing of earlier writes.",
        "rccl #1570, ucx #9502, libfabric #9378";
    NativeFlushOmitsSend: Freedom, "native FLUSH omits SEND",
        "A native FLUSH covers WRITE, WRITE_WITH_IMM and ATOMIC_WRITE, not the payload of a SEND.",
        "InfiniBand specification 1.6, A19; the text names no SEND";
    GlobalIsOnlyVisible: Freedom, "global is only visible",
        "A native FLUSH with global visibility may leave the covered data in the I/O controller.",
        "InfiniBand specification 1.6, A19: placement types";
    NicReset: Freedom, "NIC reset",
        "The responder's NIC may reset and forget the data that it has accepted, unless its buffers are trusted; the machine goes on.",
        "device error recovery; no transport forbids it";
    DramForgets: Freedom, "DRAM forgets",
        "Receive buffers in DRAM do not survive.",
        "taxonomy 3.1.3";
    ArrivalInOrder: Promise, "arrival in order",
        "A reliable connection brings operations to the responder's NIC in the order of posting.",
        "taxonomy 3.3 (WSP); InfiniBand specification 1.3, 9.5";
    PostedInOrder: Promise, "posted in order",
        "Posted operations become visible in order, without relaxed ordering.",
        "taxonomy 2";
    FlushWaits: Promise, "flush waits",
        "A flush is answered after everything that it covers has become visible.",
        "taxonomy 2";
    ReadPushes: Promise, "READ pushes",
        "The answer of a READ comes after earlier writes have left the I/O controller.",
        "taxonomy 3.4; PCIe base specification 3.0";
    PersistentFlushPersists: Promise, "persistent FLUSH persists",
        "A native FLUSH with persistence is answered after the covered data is in the persistence domain, past any cache.",
        "InfiniBand specification 1.6, A19; soft-RoCE writes the lines back";
    AtomicWriteWaits: Promise, "ATOMIC_WRITE waits",
        "ATOMIC_WRITE takes effect after every earlier flush.",
        "taxonomy 2";
    CompletionsInOrder: Promise, "completions in order",
        "Completions of one queue pair come in the order of posting.",
        "InfiniBand specification 1.3, 10.8.5; the contract of the fabric";
    ReceiveAfterPlacement: Promise, "receive after placement",
        "A receive completes after its message and all earlier writes are visible, with relaxed ordering too.",
        "taxonomy 3.1.3; ibv_reg_mr(3) on relaxed ordering";
    WriteBackPersists: Promise, "write-back persists",
        "Write-back and fence by the responder's processor put visible lines into the memory controller.",
        "taxonomy 2 (CLWB, ADR); fdatasync on page files";
    BatteryDrains: Promise, "battery drains",
        "Where the whole system persists, a power cut still places the data that the NIC has accepted, in order.",
        "taxonomy 3.1.1";
    RecoveryReplays: Promise, "recovery replays",
        "Recovery applies each message that it finds whole in a persistent receive buffer.",
        "taxonomy 3.2";
}

/// A set of rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rules(u32);

impl Rules {
    /// All rules: the model.
    pub const ALL: Self = Self((1 << Rule::ALL.len()) - 1);

    /// All rules except one.
    pub const fn without(self, rule: Rule) -> Self {
        Self(self.0 & !(1 << rule as u32))
    }

    pub(super) const fn has(self, rule: Rule) -> bool {
        self.0 & 1 << rule as u32 != 0
    }
}

/// The part of the path that survives a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Survives {
    /// No part: the bytes are volatile.
    Nothing,
    /// Synced pages; visible pages may have been written early.
    Synced,
    /// The memory controller; visible lines may have been evicted early.
    Controller,
    /// Everything visible.
    Visible,
    /// Everything visible, and the NIC's buffers.
    Everything,
}

/// The model's view of a platform. Platforms with the same view behave the same, so their verdicts are shared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Hardware {
    pub(super) rules: Rules,
    pub(super) survives: Survives,
    pub(super) inbound_to_cache: bool,
    pub(super) persistent_buffers: bool,
    pub(super) early_completion: bool,
    pub(super) flush: FlushKind,
    pub(super) relaxed: bool,
    pub(super) may_reset: bool,
}

impl Hardware {
    pub fn of(platform: &Platform, rules: Rules) -> Self {
        let survives = match platform.persistence {
            PersistenceDomain::Volatile => Survives::Nothing,
            PersistenceDomain::PageFile => Survives::Synced,
            PersistenceDomain::Dmp => Survives::Controller,
            PersistenceDomain::Mhp => Survives::Visible,
            PersistenceDomain::Wsp if rules.has(Rule::BatteryDrains) => Survives::Everything,
            PersistenceDomain::Wsp => Survives::Visible,
        };
        let cached = platform.ddio == Ddio::On || survives == Survives::Synced;
        Self {
            rules,
            survives,
            inbound_to_cache: cached && rules.has(Rule::DdioPlacesInCache),
            persistent_buffers: platform.receive_buffers == ReceiveBuffers::Pm
                || !rules.has(Rule::DramForgets),
            early_completion: platform.transport == Transport::Iwarp
                && rules.has(Rule::EarlyIwarpCompletion),
            flush: platform.flush,
            relaxed: platform.relaxed_ordering,
            may_reset: !platform.trusted_nic_buffers && rules.has(Rule::NicReset),
        }
    }

    /// The same view without differences on which no verdict depends: where everything visible survives, cache and
    /// memory controller are one place.
    pub fn for_verdicts(self) -> Self {
        let one_place = matches!(self.survives, Survives::Visible | Survives::Everything);
        Self {
            inbound_to_cache: self.inbound_to_cache && !one_place,
            ..self
        }
    }

    /// The same view for programs whose messages hold no values: the place of such a message does not matter.
    pub fn without_values_in_messages(self) -> Self {
        Self {
            persistent_buffers: false,
            ..self
        }
    }

    pub(super) fn has(&self, rule: Rule) -> bool {
        self.rules.has(rule)
    }
}
