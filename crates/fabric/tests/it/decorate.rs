//! Decorated devices on the reference provider.

use std::rc::Rc;

use stonecast_fabric::contract::{Case, Story, World, cases, check};
use stonecast_fabric::decorate::{Audit, Audited, Counts, Meter, Metered};
use stonecast_fabric::{Device, Port, Runtime};
use stonecast_media::PersistentRegion;

use crate::loopback::{Fault, Flavour, LIBERAL, LoopbackWorld, PLAIN};

/// A world whose devices are metered and audited.
struct Watched {
    world: Rc<LoopbackWorld>,
    meter: Rc<Meter>,
    audit: Rc<Audit>,
}

impl World for Watched {
    fn node(&self, index: usize) -> Rc<Port> {
        let device: Rc<dyn Device> = self.world.node(index).device().clone();
        let device = Rc::new(Metered::new(
            Rc::new(Audited::new(device, self.audit.clone())),
            self.meter.clone(),
        ));
        let port = Rc::new(Port::new(device, 256).expect("completion queues"));
        self.world.executor().add_port(&port);
        port
    }
    fn address(&self, index: usize) -> String {
        self.world.address(index)
    }
    fn runtime(&self) -> Rc<dyn Runtime> {
        self.world.runtime()
    }
    fn run(&self, story: Story) {
        self.world.run(story);
    }
    fn persistent_region(&self, index: usize, size: u64) -> Option<Rc<dyn PersistentRegion>> {
        self.world.persistent_region(index, size)
    }
    fn hold(&self, index: usize) {
        self.world.hold(index);
    }
    fn can_kill(&self) -> bool {
        self.world.can_kill()
    }
    fn kill(&self, index: usize) {
        self.world.kill(index);
    }
}

fn watch(flavour: Flavour, name: &str) -> (Counts, u64) {
    let (meter, audit) = (Rc::new(Meter::default()), Rc::new(Audit::default()));
    let world = LoopbackWorld::new(flavour, Fault::Nothing);
    check(
        name,
        Rc::new(Watched {
            world,
            meter: meter.clone(),
            audit: audit.clone(),
        }),
    );
    (meter.counts(), audit.hash())
}

#[test]
fn a_decorated_device_keeps_every_promise_and_the_same_story_gives_the_same_hash() {
    for Case { name, .. } in cases() {
        let (first, second) = (watch(LIBERAL, name), watch(LIBERAL, name));
        assert_eq!(first, second, "{name}");
    }
}

#[test]
fn the_meter_counts_the_costs_of_a_story() {
    let (counts, _) = watch(PLAIN, "completions_report_their_opcode");
    let expected = Counts {
        doorbells: 1,
        writes: 1,
        sends: 1,
        reads: 1,
        compare_and_swaps: 1,
        fetch_and_adds: 1,
        signalled: 5,
        bytes_out: 16,
        bytes_in: 8,
        receive_doorbells: 1,
        receive_buffers: 1,
        completions: 5,
        arrivals: 0,
        ..Counts::default()
    };
    assert_eq!(counts, expected);
    assert_eq!(counts - counts, Counts::default());
}

#[test]
fn the_meter_counts_reads_at_once_like_a_posted_batch() {
    let story = "several_places_are_read_into_their_own_destinations";
    let (posted, at_once) = (watch(PLAIN, story).0, watch(LIBERAL, story).0);
    assert_eq!(
        (posted.doorbells, posted.reads, posted.bytes_in),
        (1, 4, 70)
    );
    assert_eq!(
        (at_once.doorbells, at_once.reads, at_once.bytes_in),
        (1, 4, 70)
    );
}

#[test]
fn the_meter_counts_failures_immediates_and_arrivals() {
    let (counts, _) = watch(
        PLAIN,
        "a_write_with_immediate_takes_a_buffer_and_carries_its_number_and_length",
    );
    assert_eq!(
        (
            counts.writes_with_immediate,
            counts.bytes_out,
            counts.arrivals,
            counts.failures
        ),
        (1, 200, 1, 0)
    );
    let (counts, _) = watch(
        PLAIN,
        "requests_after_a_failed_one_are_flushed_in_posting_order",
    );
    assert_eq!((counts.completions, counts.failures), (5, 5));
}
