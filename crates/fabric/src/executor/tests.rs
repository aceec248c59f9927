//! The executor on clocks that tests advance.

use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Wake;

use super::*;

/// A device that is always idle, on a clock that advances by a microsecond per reading and by the time of each park.
#[derive(Default)]
struct Idle {
    now: Cell<Nanoseconds>,
    parked: Cell<u32>,
    looks: Cell<u32>,
    yields: Cell<u32>,
    /// The time for which others run at each yield.
    others_ns: Cell<Nanoseconds>,
}

impl Park for Idle {
    fn now(&self) -> Nanoseconds {
        self.looks.set(self.looks.get() + 1);
        self.now.set(self.now.get() + 1_000);
        self.now.get()
    }
    fn park(&self, timeout: Nanoseconds) {
        self.now.set(self.now.get() + timeout);
        self.parked.set(self.parked.get() + 1);
    }
    fn yield_processor(&self) {
        self.now.set(self.now.get() + self.others_ns.get());
        self.yields.set(self.yields.get() + 1);
    }
}

fn executor() -> (Rc<Idle>, BusyPoll) {
    let idle = Rc::new(Idle::default());
    (idle.clone(), BusyPoll::new(idle, 50_000))
}

#[test]
fn an_idle_executor_parks_instead_of_spinning() {
    let (idle, executor) = executor();
    let runtime = executor.runtime();
    executor.block_on(runtime.sleep(1_000_000_000));
    assert!(
        idle.parked.get() >= 1,
        "one second of idleness passes in parks"
    );
    assert!(
        idle.parked.get() <= 30,
        "each park has its full length: {}",
        idle.parked.get()
    );
}

/// Needs `idle_since` to survive work that timers start.
#[test]
fn a_task_that_wakes_now_and_then_does_not_make_the_executor_spin() {
    let (idle, executor) = executor();
    let runtime = executor.runtime();
    executor.block_on(async {
        for _ in 0..100 {
            runtime.sleep(10_000_000).await;
        }
    });
    // 50 clock readings are one spin of 50 us.
    assert!(
        idle.looks.get() < 1_000,
        "a hundred sleeps took {} clock readings",
        idle.looks.get()
    );
}

/// Yields of an executor that spins a hundred times, while others run for `others_ns` at each yield.
fn yields(others_ns: Nanoseconds) -> u32 {
    let idle = Rc::new(Idle::default());
    let executor = BusyPoll::for_client(idle.clone(), 50_000);
    idle.others_ns.set(others_ns);
    let runtime = executor.runtime();
    for _ in 0..100 {
        idle.now.set(idle.now.get() + 2_000_000);
        executor.block_on(runtime.sleep(45_000));
    }
    idle.yields.get()
}

/// Needs [`ROUNDS_ALONE`], the yield, and the end of yields beside a program that computes.
#[test]
fn a_spin_lets_others_run_that_answer_soon_and_none_that_compute_for_long() {
    let alone = yields(0);
    assert!(alone > 500, "{alone}");
    assert!(
        alone < 45 * 100 - 100 * ROUNDS_ALONE / 2,
        "the first rounds of a spin make no system call: {alone}"
    );
    let beside_peers = yields(20_000);
    assert!(beside_peers >= 100, "{beside_peers}");
    let beside_a_computation = yields(3_000_000);
    assert!(
        (1..=25).contains(&beside_a_computation),
        "{beside_a_computation}"
    );
}

#[test]
fn sleepers_wake_in_the_order_of_their_deadlines_and_tasks_end_before_their_slot_is_reused() {
    let (_, executor) = executor();
    let runtime = executor.runtime();
    let order = Rc::new(RefCell::new(Vec::new()));
    for delay in [30_000u64, 10_000, 20_000] {
        let (order, runtime2) = (order.clone(), executor.runtime());
        runtime.spawn(Box::pin(async move {
            runtime2.sleep(delay).await;
            order.borrow_mut().push(delay);
        }));
    }
    executor.block_on(runtime.sleep(100_000));
    assert_eq!(*order.borrow(), [10_000, 20_000, 30_000]);
    let order2 = order.clone();
    runtime.spawn(Box::pin(async move { order2.borrow_mut().push(1) }));
    executor.block_on(runtime.sleep(100_000));
    assert_eq!(order.borrow().last(), Some(&1));
}

/// Needs the bound of [`TASKS_PER_ROUND`].
#[test]
fn tasks_that_wake_themselves_do_not_keep_timers_waiting() {
    let (_, executor) = executor();
    let runtime = executor.runtime();
    let turns = Rc::new(Cell::new(0));
    let counted = turns.clone();
    runtime.spawn(Box::pin(std::future::poll_fn(move |context| {
        counted.set(counted.get() + 1);
        assert!(counted.get() < 1_000_000, "the timer never fired");
        context.waker().wake_by_ref();
        Poll::Pending
    })));
    executor.block_on(runtime.sleep(1_000_000));
    assert!(turns.get() > 0, "the task ran");
}

/// Needs the check of the registered waker, and the cancellation on drop.
#[test]
fn a_sleep_has_one_timer_however_often_it_is_polled_and_none_when_it_is_dropped() {
    let (_, executor) = executor();
    let runtime = executor.runtime();
    let timers = || executor.owner.shared.timers.borrow().len();
    let waker = Waker::noop();
    {
        let mut sleep = pin!(runtime.sleep(1 << 40));
        for _ in 0..100 {
            assert!(
                sleep
                    .as_mut()
                    .poll(&mut Context::from_waker(waker))
                    .is_pending()
            );
        }
        assert_eq!(timers(), 1);
        let other = Waker::from(Handle::new(3, &executor.owner.shared.ready));
        assert!(
            sleep
                .as_mut()
                .poll(&mut Context::from_waker(&other))
                .is_pending()
        );
        assert_eq!(timers(), 1, "another waker replaces the first");
    }
    assert_eq!(timers(), 0);
}

#[test]
#[should_panic(expected = "not called inside")]
fn a_nested_block_on_is_refused() {
    let (_, executor) = executor();
    executor.block_on(async { executor.block_on(async {}) });
}

/// Needs the root's `queued` to reflect the queue from one future to the next.
#[test]
fn a_late_wake_up_of_an_ended_future_takes_no_wake_up_from_the_next_future() {
    let (_, executor) = executor();
    let runtime = executor.runtime();
    let mut old = None;
    executor.block_on(async {
        std::future::poll_fn(|context| {
            old = Some(context.waker().clone());
            context.waker().wake_by_ref();
            Poll::Ready(())
        })
        .await;
    });
    old.expect("the first future ran").wake();
    let start = runtime.now();
    executor.block_on(runtime.sleep(1_000_000));
    assert!(runtime.now() >= start + 1_000_000);
}

#[test]
fn an_executor_whose_task_panicked_can_run_again() {
    let (_, executor) = executor();
    let block = std::panic::AssertUnwindSafe(|| executor.block_on(async { panic!("as it must") }));
    assert!(std::panic::catch_unwind(block).is_err());
    executor.block_on(executor.runtime().sleep(10_000));
}

/// Needs the drop of the owner: tasks hold the runtime, and the runtime holds the tasks.
#[test]
fn tasks_end_with_the_last_handle_of_their_executor() {
    struct SpawnsInDrop(Rc<dyn Runtime>, Rc<()>);
    impl Drop for SpawnsInDrop {
        fn drop(&mut self) {
            let held = self.1.clone();
            self.0.spawn(Box::pin(async move { drop(held) }));
        }
    }
    let (_, executor) = executor();
    let runtime = executor.runtime();
    let held = Rc::new(());
    let guard = SpawnsInDrop(runtime.clone(), held.clone());
    runtime.spawn(Box::pin(async move {
        guard.0.sleep(1 << 40).await;
    }));
    executor.block_on(runtime.sleep(10_000));
    assert_eq!(Rc::strong_count(&held), 2);
    let second = executor.clone();
    drop(executor);
    assert_eq!(Rc::strong_count(&held), 2, "one handle is left");
    drop(second);
    assert_eq!(Rc::strong_count(&held), 1);
}

/// A host that is suspended for an hour as soon as it has nothing to do.
struct SuspendedHost {
    clock: Idle,
    asked_for: Cell<Nanoseconds>,
}

const HOUR_NS: Nanoseconds = 3_600_000_000_000;

impl Park for SuspendedHost {
    fn now(&self) -> Nanoseconds {
        self.clock.now()
    }
    fn park(&self, timeout: Nanoseconds) {
        self.asked_for.set(timeout);
        self.clock.park(HOUR_NS);
    }
}

/// Needs the bound of a park, and the look at the clock after it: a kernel's time-out of half an hour would begin
/// again.
#[test]
fn a_deadline_that_passed_while_the_host_was_suspended_is_noticed_after_one_short_park() {
    let host = Rc::new(SuspendedHost {
        clock: Idle::default(),
        asked_for: Cell::new(0),
    });
    let executor = BusyPoll::new(host.clone(), 1_000);
    executor.block_on(executor.runtime().sleep(HOUR_NS / 2));
    assert_eq!(host.clock.parked.get(), 1);
    assert!(host.asked_for.get() <= PARK_MAX_NS);
}

/// A thread that wakes a task at the worst moment: when the executor has found nothing to do and goes to sleep.
struct WokenWhileParking {
    clock: Idle,
    task: RefCell<Option<Waker>>,
    unparked: Arc<AtomicBool>,
}

struct Unpark(Arc<AtomicBool>);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Park for WokenWhileParking {
    fn now(&self) -> Nanoseconds {
        self.clock.now()
    }
    fn park(&self, timeout: Nanoseconds) {
        if let Some(task) = self.task.take() {
            task.wake();
        }
        if !self.unparked.swap(false, Ordering::SeqCst) {
            self.clock.park(timeout);
        }
    }
    fn unpark(&self) -> Option<Waker> {
        Some(Waker::from(Arc::new(Unpark(self.unparked.clone()))))
    }
}

/// Needs the check of `parked` in the waker.
#[test]
fn a_wake_up_from_outside_ends_the_park() {
    let park = Rc::new(WokenWhileParking {
        clock: Idle::default(),
        task: RefCell::default(),
        unparked: Arc::default(),
    });
    let executor = BusyPoll::new(park.clone(), 1_000);
    let mut polls = 0;
    executor.block_on(std::future::poll_fn(|context| {
        polls += 1;
        if polls == 4 {
            return Poll::Ready(());
        }
        park.task.replace(Some(context.waker().clone()));
        Poll::Pending
    }));
    assert_eq!(park.clock.parked.get(), 0, "no wake-up was slept through");
}
