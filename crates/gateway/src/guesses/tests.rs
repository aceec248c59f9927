//! The limit in virtual time, so that every count is exact.

use std::cell::Cell;
use std::net::{IpAddr, Ipv4Addr};

use stonecast_fabric::{BusyPoll, Park};

use super::*;

const SECOND: Nanoseconds = 1_000_000_000;

/// A clock that moves when no task has work.
#[derive(Default)]
struct VirtualClock(Cell<Nanoseconds>);

impl Park for VirtualClock {
    fn now(&self) -> Nanoseconds {
        self.0.get()
    }

    fn park(&self, timeout: Nanoseconds) {
        self.0.set(self.0.get() + timeout);
    }
}

struct World {
    executor: BusyPoll,
    runtime: Rc<dyn Runtime>,
    guesses: Rc<Guesses>,
    wrong: Rc<Cell<u64>>,
}

fn origin(number: u32) -> Origin {
    Origin::of(IpAddr::V4(Ipv4Addr::from_bits(number)))
}

impl World {
    fn new() -> Self {
        let executor = BusyPoll::new(Rc::new(VirtualClock::default()), 0);
        Self {
            runtime: executor.runtime(),
            executor,
            guesses: Rc::new(Guesses::new(1)),
            wrong: Rc::default(),
        }
    }

    /// Spawns a client that guesses forever, over a new connection after each `guesses_each` guesses.
    fn attack(&self, origin: Origin, guesses_each: u64) {
        let (runtime, guesses, wrong) = (
            self.runtime.clone(),
            self.guesses.clone(),
            self.wrong.clone(),
        );
        self.runtime.spawn(Box::pin(async move {
            loop {
                let connection = OwnGuesses::new(origin);
                for _ in 0..guesses_each {
                    guesses.turn(&connection, &runtime).await.was_wrong();
                    wrong.set(wrong.get() + 1);
                }
            }
        }));
    }

    fn pass(&self, time: Nanoseconds) {
        self.executor.block_on(self.runtime.sleep(time));
    }

    /// Returns the wait of a client that knows the password.
    fn wait_of_client(&self, origin: Origin) -> Nanoseconds {
        let began_at = self.runtime.now();
        let connection = OwnGuesses::new(origin);
        let turn = self.guesses.turn(&connection, &self.runtime);
        let turn = self.executor.block_on(turn);
        assert_eq!(turn.was_late, self.runtime.now() > began_at);
        self.runtime.now() - began_at
    }
}

/// Needs the pace of the connection.
#[test]
fn a_connection_has_three_guesses_and_then_one_a_second() {
    let world = World::new();
    world.attack(origin(1), u64::MAX);
    world.pass(60 * SECOND + SECOND / 2);
    assert_eq!(world.wrong.get(), 3 + 60);
}

/// Needs the pace of the origin, and turns that are taken before passwords are compared.
#[test]
fn an_origin_has_a_hundred_guesses_a_second_over_however_many_connections() {
    let world = World::new();
    (0..200).for_each(|_| world.attack(origin(1), 3));
    world.pass(30 * SECOND + SECOND / 200);
    assert_eq!(world.wrong.get(), 100 + 30 * 100);
    assert_eq!(world.wait_of_client(origin(2)), 0, "no other waits");
    let wait = world.wait_of_client(origin(1));
    assert!(
        wait <= 2 * SECOND + SECOND / 100,
        "200 were before it: {wait}"
    );
    world.pass(10 * SECOND);
    assert_eq!(world.wait_of_client(origin(2)), 0);
}

/// Needs the pace of all origins together.
#[test]
fn all_origins_together_have_a_thousand_guesses_a_second_and_a_client_gets_its_turn() {
    let world = World::new();
    (0..2000).for_each(|number| world.attack(origin(number), 3));
    world.pass(10 * SECOND + SECOND / 2000);
    assert_eq!(world.wrong.get(), 1000 + 10 * 1000);
    let wait = world.wait_of_client(origin(9999));
    assert!(
        wait <= 2 * SECOND + SECOND / 1000,
        "2000 were before it: {wait}"
    );
}

/// Needs a right password to give its turns back.
#[test]
fn clients_that_know_the_password_never_wait_for_each_other() {
    let world = World::new();
    for _ in 0..100_000 {
        assert_eq!(world.wait_of_client(origin(1)), 0);
    }
}

/// Needs an abandoned turn to be taken back: otherwise attackers that do not wait for answers would lock every client
/// out.
#[test]
fn abandoned_turns_cost_other_guesses_no_time() {
    let world = World::new();
    world.attack(origin(1), 3);
    world.pass(SECOND / 2);
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    for _ in 0..100_000 {
        let connection = OwnGuesses::new(origin(1));
        let mut turn = Box::pin(world.guesses.turn(&connection, &world.runtime));
        assert!(turn.as_mut().poll(&mut context).is_pending());
    }
    assert!(world.wait_of_client(origin(1)) <= SECOND / 50);
}

/// Needs idle origins to be forgotten.
#[test]
fn memory_of_origins_is_bounded() {
    let world = World::new();
    for number in 0..100_000 {
        let connection = OwnGuesses::new(origin(number));
        let turn = world.guesses.turn(&connection, &world.runtime);
        world.executor.block_on(turn).was_wrong();
    }
    let kept = world.guesses.origins.borrow().paces.len();
    assert!(kept <= 2 * ORIGINS_MIN, "{kept}");
}

/// Needs the threads to share the pace: otherwise an origin would have the whole pace on each of the threads.
#[test]
fn the_threads_share_the_pace_of_an_origin() {
    let mut world = World::new();
    world.guesses = Rc::new(Guesses::new(4));
    world.attack(origin(1), 1);
    world.pass(SECOND / 2);
    let wrong = world.wrong.get();
    assert!(
        (35..=40).contains(&wrong),
        "{wrong} guesses on one of four threads in half a second"
    );
}
