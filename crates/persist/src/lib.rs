//! The operations that make a remote write durable on each platform, and the proof that nothing less does.
//!
//! ```text
//!   profile.toml ── PlatformProfile ── Platform ┐
//!                           Operation   ├─ plan ──▶ Plan = steps of requester and responder, and their cost
//!                           Update      ┘            │
//!                                                    ├─ litmus::prove   sound, and each step necessary: every state, every crash
//!                                                    ├─ litmus::walk    the place of everything at each step
//!                                                    ├─ execute         Persisted, on any provider
//!   search::Searcher ── the cheapest sound program ──┘  compared with the tables of the taxonomy
//! ```
//!
//! Invariants: everything except [`execute`] is a pure function of its arguments; only the planner makes a [`Plan`]; a
//! [`Program`] claims nothing. The code has no state of its own that a crash could damage; crashes are the subject of
//! plans.
#![forbid(unsafe_code)]

pub mod execute;
pub mod litmus;
mod plan;
mod platform;
mod profile;
mod program;
mod reasons;
mod scenario;
pub mod search;
mod step;
mod taxonomy;
mod words;

pub use execute::Persisted;
pub use plan::{NoPlan, Plan, plan, plan_answered, plan_for};
pub use platform::{Axis, Contradiction, FlushKind, Platform, Transport};
pub use profile::{Declaration, PlatformProfile, ProfileError};
pub use program::{Cost, Program};
pub use scenario::{Operation, Scenario, Update, published_platforms, scenarios};
pub use step::{Awaited, Item, Message, Party, Step, UnknownStep};
pub use taxonomy::tabulated;
