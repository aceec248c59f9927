//! Tests of the planner from the view of its users.

mod appends;
mod backup;
mod commit;
mod execution;
mod litmus;
#[path = "../../../fabric/tests/it/loopback/mod.rs"]
#[allow(
    dead_code,
    unused_imports,
    reason = "the stories need only a part of the reference provider"
)]
mod loopback;
mod matrix;
mod page;
#[path = "../../../fabric-shm/tests/it/pause.rs"]
mod pause;
mod pipeline;
mod profile;
mod providers;
mod search;
mod taxonomy;
mod timed;
#[cfg(feature = "verbs")]
mod verbs;
