//! Points at which a test can make this process die or stop. Empty in ordinary builds.

/// Marks a point between two effects on shared memory.
#[cfg(not(all(test, not(loom))))]
#[inline(always)]
pub(crate) fn step(_name: &'static str) {}

/// Marks a point between two effects on shared memory: the process kills or stops itself there if the test asked for
/// it.
#[cfg(all(test, not(loom)))]
pub(crate) fn step(name: &'static str) {
    testing::reached(name);
}

#[cfg(all(test, not(loom)))]
pub(crate) mod testing {
    use std::cell::Cell;

    use rustix::process::{Signal, getpid, kill_process};

    /// The action at the point.
    #[derive(Clone, Copy)]
    pub(crate) enum Fate {
        Die,
        Stop,
    }

    #[derive(Clone, Copy)]
    struct Plan {
        /// The point; `None` counts all points.
        name: Option<&'static str>,
        /// The number of points to pass first.
        remaining: u64,
        fate: Fate,
    }

    thread_local! {
        static PLAN: Cell<Option<Plan>> = const { Cell::new(None) };
    }

    /// From now on this thread passes `passes` points called `name` (or any points), and meets its fate at the next.
    pub(crate) fn plan(name: Option<&'static str>, passes: u64, fate: Fate) {
        PLAN.set(Some(Plan {
            name,
            remaining: passes,
            fate,
        }));
    }

    pub(super) fn reached(name: &'static str) {
        let Some(mut plan) = PLAN.get() else { return };
        if plan.name.is_some_and(|wanted| wanted != name) {
            return;
        }
        if plan.remaining > 0 {
            plan.remaining -= 1;
            PLAN.set(Some(plan));
            return;
        }
        PLAN.set(None);
        let signal = match plan.fate {
            Fate::Die => Signal::KILL,
            Fate::Stop => Signal::STOP,
        };
        kill_process(getpid(), signal).expect("a process can signal itself");
        // Another thread may take the signal, and stop this thread a moment later.
        std::thread::sleep(std::time::Duration::from_millis(500));
    }
}
