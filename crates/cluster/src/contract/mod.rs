//! The contract of stores of configurations: named promises, as stories that run on any [`ConfigStore`].
//!
//! ```text
//!   list.rs      the table of contents
//!   values.rs, writers.rs, watching.rs      one story per promise, named by the sentence that it checks
//!      | tells its story with
//!   Scene        handles of one store, and the passing of time
//!      | stands on
//!   dyn World    the parts that a store's tests provide: handles, a clock, a driver of everything
//! ```
//!
//! The tests of a store implement [`World`] and call `store_contract_tests!`, which makes one test for each promise. No
//! fault happens in a story, so an answer of unknown outcome breaks the promise. Each store has its own stories of
//! faults.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

use stonecast_base::Nanoseconds;
use stonecast_fabric::Runtime;

use crate::store::{ConfigStore, Pending, Revision, Stored, Swap};

mod list;
#[doc(hidden)]
pub mod report;
mod values;
mod watching;
mod writers;

pub use list::cases;

/// A running story.
pub type Story = Pin<Box<dyn Future<Output = ()>>>;

/// Time for which a story waits for an answer before the story fails, in nanoseconds of the world's clock.
pub const PATIENCE_NS: Nanoseconds = 30_000_000_000;

/// The surroundings that the tests of a store provide. A new world is made for each promise.
pub trait World {
    /// A handle of one store in which nothing was ever stored before the story. Each call gives another handle of the
    /// same store, as another process would have it.
    fn store(&self) -> Rc<dyn ConfigStore>;
    /// The clock and the timers of this world.
    fn runtime(&self) -> Rc<dyn Runtime>;
    /// Drives everything until `story` is done.
    fn run(&self, story: Story);
}

/// One promise.
pub struct Case {
    /// The promise as a sentence, its words joined by underscores. The name of the test is the same.
    pub name: &'static str,
    /// Runs the story.
    pub run: fn(Scene) -> Story,
}

/// The means of a story.
pub struct Scene {
    world: Rc<dyn World>,
    runtime: Rc<dyn Runtime>,
}

impl Scene {
    fn new(world: Rc<dyn World>) -> Self {
        Self {
            runtime: world.runtime(),
            world,
        }
    }

    fn handle(&self) -> Handle {
        Handle {
            store: self.world.store(),
            runtime: self.runtime.clone(),
        }
    }
}

/// A store whose answers must all arrive.
struct Handle {
    store: Rc<dyn ConfigStore>,
    runtime: Rc<dyn Runtime>,
}

impl Handle {
    async fn within<T>(&self, what: &str, work: impl Future<Output = T>) -> T {
        let outcome = self.runtime.within(PATIENCE_NS, work).await;
        outcome.unwrap_or_else(|_| panic!("{} never answers to {what}", self.store.name()))
    }

    async fn read(&self) -> Option<Stored> {
        let read = self.within("a read", self.store.read()).await;
        read.expect("nothing fails in a story")
    }

    async fn swap(&self, expected: Option<Revision>, bytes: &[u8]) -> Swap {
        let swap = self.store.compare_and_set(expected, bytes);
        let swap = self.within("a compare-and-set", swap).await;
        swap.expect("nothing fails in a story")
    }

    /// Stores `bytes` without any rival writer.
    async fn store(&self, expected: Option<Revision>, bytes: &[u8]) -> Revision {
        match self.swap(expected, bytes).await {
            Swap::Done(revision) => revision,
            Swap::Conflict => panic!("nobody else changed what was expected: {expected:?}"),
        }
    }

    async fn changed(&self, since: Option<Revision>) -> Stored {
        let changed = self.within("a watch", self.store.changed(since)).await;
        changed.expect("nothing fails in a story")
    }
}

/// Sends a request to a store, and drops the answer before it arrives.
async fn drop_on_its_way<T>(mut pending: Pending<'_, T>) {
    poll_fn(|context| {
        let _ = pending.as_mut().poll(context);
        Poll::Ready(())
    })
    .await;
}

/// Checks the promise called `name` on `world`.
pub fn check(name: &str, world: Rc<dyn World>) {
    let case = cases()
        .iter()
        .find(|case| case.name == name)
        .expect("the list makes the tests, so each test has a case");
    world.run((case.run)(Scene::new(world.clone())));
}

/// Makes one test per promise of the contract, named by it. `$store` is the name of the store for people; `$world` maps
/// the name of a promise to a `Result<Rc<dyn World>, String>`: a promise that finds no world is reported as not run,
/// with the reason.
#[macro_export]
macro_rules! store_contract_tests {
    ($store:expr, $world:expr) => {
        $crate::__store_contract_list! { __store_contract_tests ($store, $world) }
    };
}

/// The tests of [`store_contract_tests`].
#[doc(hidden)]
#[macro_export]
macro_rules! __store_contract_tests {
    ($world:tt $($group:ident { $($name:ident,)* })*) => {
        $crate::__store_contract_tests! { @flat $world $($($name)*)* }
    };
    (@flat $world:tt $($name:ident)*) => {
        $( $crate::__store_contract_tests! { @one $world $name } )*
    };
    (@one ($store:expr, $world:expr) $name:ident) => {
        #[test]
        fn $name() {
            let name = stringify!($name);
            $crate::contract::report::test($store, name, $world(name));
        }
    };
}
