//! A world in which three nodes keep copies of shards by the rules of `stonecast-replication`. Connections, letters and
//! power are events that chance picks, so a run of some thousand events takes milliseconds, and its seed decides
//! everything.
//!
//! ```text
//!   primary ──wire: lands, in order──▶ memory of a copy ──flush──▶ reports ──▶ primary        wires
//!   heir ──letter: history, then entries──▶ copy ──letter: confirmed──▶ heir                   settling, following
//!   primary ──letter: drop; pulled state──▶ joiner ──letter: dropped; pulled──▶ primary        filling
//!   primary ──hands over, compare-and-set, letter: consent──▶ heir                             moving
//!   client ──call──▶ primary ──answer──▶ client ──▶ oracle                                     serving
//!
//!   setup     choices of a seed              world          everything, and the loop of events
//!   mishaps   events that go wrong           calm           the end of a run: all copies come to agree
//!   outcome   the record of a run            configuration  one value, changed by compare-and-set
//! ```
//!
//! NICs go on while a process stands still: entries on a wire land, and are flushed. Wires carry all shards. A worker
//! of a node counts the versions of all of its shards. The configuration is a value here; nodes hear of its changes at
//! their own time.
//!
//! A broken promise is a panic. [`Outcome`] has the rest, for oracles elsewhere.
#![forbid(unsafe_code)]

mod calm;
mod clients;
mod configuration;
mod filling;
mod following;
mod isolation;
mod memory;
mod mishaps;
mod moving;
mod node;
mod oracle;
mod outcome;
mod serving;
mod settling;
mod setup;
mod state;
mod wires;
mod world;

pub use clients::{Call, Told, Wish};
pub use outcome::{Claim, Counts, Outcome, Shown, Step};
pub use setup::{Faults, Setup};
pub use state::{Key, Word, Write};
pub use world::{NODES, SHARDS, World};
