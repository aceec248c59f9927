//! The contract: named promises that every provider of verbs keeps, as stories that run on any of them.
//!
//! ```text
//!   list.rs      the table of contents: group, promise, needs
//!   ordering.rs, atomics.rs, ...      one story per promise, named by the sentence that it checks
//!      | tells its story with
//!   Scene        nodes, connections, the passing of time
//!   End          one side of a connection: its buffer, posts, expected completions
//!      | stands on
//!   dyn World    given by a provider: devices, addresses, a clock, a driver of everything
//! ```
//!
//! A provider implements [`World`] and writes `contract_tests!(make_world())` in its test binary, which makes one test
//! per promise. A promise whose capability the device lacks is reported as not run, by name and count, and never as
//! kept.
//!
//! Invariants:
//! - A story has one reason to fail. It fails by panicking with the awaited event or the wrong finding.
//! - Every wait is bounded by [`PATIENCE_NS`] on the world's clock, so a broken provider fails instead of hanging.
//! - A story never asserts that something is slow, fast, or happens at a certain moment. Some stories must let time
//!   pass to see that nothing happens; there a slow machine can hide a fault but not invent one.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

use stonecast_base::Nanoseconds;
use stonecast_media::PersistentRegion;

use crate::{Capabilities, Port, Runtime};

mod access;
mod appends;
mod atomics;
mod changes;
mod connections;
mod end;
mod failure;
mod flush;
mod list;
mod multi_packet;
pub mod operations;
mod ordering;
mod ports;
mod queues;
mod quiescing;
mod reads;
mod receives;
#[doc(hidden)]
pub mod report;
mod revocation;
mod scene;
mod shared;
mod transfer;

pub use end::{End, fenced, signalled, unsignalled};
pub use list::cases;
pub use scene::{Pair, Scene, Setup};

/// A running story.
pub type Story = Pin<Box<dyn Future<Output = ()>>>;

/// The time that a story waits for anything before it fails, in nanoseconds of the world's clock.
pub const PATIENCE_NS: Nanoseconds = 10_000_000_000;

/// The services of a provider that the contract needs. A new world is made for each promise.
///
/// All ports are used by the thread that calls [`World::run`]. Stories poll the ports and completion queues of their
/// nodes themselves while they wait, so that a provider without any helper makes progress.
pub trait World {
    /// Makes node `index`: a device of its own, on its own (simulated or real) machine or process as far as possible,
    /// and its port. Called at most once for each of 0, 1 and 2.
    fn node(&self, index: usize) -> Rc<Port>;
    /// An address at which node `index` can listen and that the other nodes can reach. No node listens there yet.
    fn address(&self, index: usize) -> String;
    /// The clock and the timers of this world.
    fn runtime(&self) -> Rc<dyn Runtime>;
    /// Drives everything until `story` is done.
    fn run(&self, story: Story);
    /// Leaves node `index` without processor time: the story does not touch the node's port and completion queues
    /// afterwards, and neither may the world. Worlds that never poll by themselves have nothing to do.
    fn hold(&self, index: usize) {
        let _ = index;
    }
    /// Memory of node `index`, `size` bytes, for which the device grants FLUSH with persistence. `None` if the device
    /// has no such FLUSH.
    fn persistent_region(&self, index: usize, size: u64) -> Option<Rc<dyn PersistentRegion>> {
        let _ = (index, size);
        None
    }
    /// Whether this world supports [`World::kill`].
    fn can_kill(&self) -> bool {
        false
    }
    /// Destroys node `index` as `kill -9` would: no goodbye, no destructor, and no visible action afterwards. The story
    /// does not touch the node's port afterwards.
    fn kill(&self, index: usize) {
        unreachable!("this world cannot kill node {index}");
    }
}

/// A need of a promise, beyond the capabilities that all devices and worlds have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// [`Capabilities::memory_windows`].
    MemoryWindows,
    /// [`Capabilities::multi_packet`].
    MultiPacket,
    /// [`Capabilities::flush_global`].
    FlushGlobal,
    /// [`Capabilities::flush_persistent`].
    FlushPersistent,
    /// [`Capabilities::atomic_write`].
    AtomicWrite,
    /// The absence of at least one of FLUSH and ATOMIC_WRITE.
    SomethingMissing,
    /// [`World::can_kill`].
    Killing,
}

impl Need {
    /// The missing capability if the need is not met, after "device has no" or the like; `None` if the need is met.
    pub fn missing(self, capabilities: &Capabilities, can_kill: bool) -> Option<&'static str> {
        let complete =
            capabilities.flush_global && capabilities.flush_persistent && capabilities.atomic_write;
        let (met, missing) = match self {
            Need::MemoryWindows => (capabilities.memory_windows, "device has no memory windows"),
            Need::MultiPacket => (
                capabilities.multi_packet,
                "device has no multi-packet receive queues",
            ),
            Need::FlushGlobal => (
                capabilities.flush_global,
                "device has no FLUSH with global visibility",
            ),
            Need::FlushPersistent => (
                capabilities.flush_persistent,
                "device has no FLUSH with persistence",
            ),
            Need::AtomicWrite => (capabilities.atomic_write, "device has no ATOMIC_WRITE"),
            Need::SomethingMissing => (!complete, "device has all operations"),
            Need::Killing => (can_kill, "world cannot kill a node"),
        };
        (!met).then_some(missing)
    }
}

/// One promise.
pub struct Case {
    /// The group of the promise.
    pub group: &'static str,
    /// The promise as a sentence, its words joined by underscores; also the name of its test.
    pub name: &'static str,
    /// The needs of the promise.
    pub needs: &'static [Need],
    /// Tells the story.
    pub run: fn(Rc<Scene>) -> Story,
}

impl Case {
    /// The missing capability; see [`Need::missing`].
    pub fn missing(&self, capabilities: &Capabilities, can_kill: bool) -> Option<&'static str> {
        self.needs
            .iter()
            .find_map(|need| need.missing(capabilities, can_kill))
    }

    /// The promise as a sentence.
    pub fn sentence(&self) -> String {
        let mut words = self.name.replace('_', " ");
        if let Some(first) = words.get_mut(0..1) {
            first.make_ascii_uppercase();
        }
        words
    }
}

/// Whether a promise could be checked. A broken promise panics instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The story ended as promised.
    Kept,
    /// The device or the world lacks a need of the story.
    NotRun {
        /// [`Capabilities::name`].
        device: String,
        /// The missing capability.
        reason: &'static str,
    },
}

/// Checks the promise called `name` on `world`.
pub fn check(name: &str, world: Rc<dyn World>) -> Outcome {
    let case = cases()
        .iter()
        .find(|case| case.name == name)
        .expect("the tests are made from the list, so each test has a case");
    let scene = Scene::new(world.clone());
    let capabilities = scene.node(0).device().capabilities().clone();
    if let Some(reason) = case.missing(&capabilities, world.can_kill()) {
        return Outcome::NotRun {
            device: capabilities.name,
            reason,
        };
    }
    world.run((case.run)(scene));
    Outcome::Kept
}

/// Makes one test per promise of the contract, named after the promise, and one that reports the promises that could
/// not be checked.
///
/// `$world` is an expression of type `Rc<dyn World>`, evaluated once per test.
#[macro_export]
macro_rules! contract_tests {
    ($world:expr) => {
        $crate::__contract_list! { __contract_test_functions ($world) }

        #[test]
        fn contract_summary() {
            $crate::contract::report::summarize($world);
        }
    };
}

/// Like [`contract_tests`], for a provider that a machine may lack: `$world` maps the name of a promise to a
/// `Result<Rc<dyn World>, String>`. Each promise without a world is reported as not run, with the reason.
#[macro_export]
macro_rules! contract_tests_if_available {
    ($provider:expr, $world:expr) => {
        $crate::__contract_list! { __contract_available_test_functions ($provider, $world) }

        #[test]
        fn contract_summary() {
            $crate::contract::report::summarize_if_available($provider, $world("contract_summary"));
        }
    };
}

/// The tests of [`contract_tests_if_available`].
#[doc(hidden)]
#[macro_export]
macro_rules! __contract_available_test_functions {
    ($available:tt $($group:ident { $($name:ident: [$($need:ident),*],)* })*) => {
        $crate::__contract_available_test_functions! { @flat $available $($($name)*)* }
    };
    (@flat $available:tt $($name:ident)*) => {
        $( $crate::__contract_available_test_functions! { @one $available $name } )*
    };
    (@one ($provider:expr, $world:expr) $name:ident) => {
        #[test]
        fn $name() {
            let name = stringify!($name);
            $crate::contract::report::test_if_available($provider, name, $world(name));
        }
    };
}

/// The tests of [`contract_tests`].
#[doc(hidden)]
#[macro_export]
macro_rules! __contract_test_functions {
    ($world:tt $($group:ident { $($name:ident: [$($need:ident),*],)* })*) => {
        $crate::__contract_test_functions! { @flat $world $($($name)*)* }
    };
    (@flat $world:tt $($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                $crate::contract::report::test(stringify!($name), $world);
            }
        )*
    };
}
