//! A world of loopback devices: virtual time, one thread, the busy-poll executor.

use std::cell::RefCell;
use std::rc::Rc;

use stonecast_base::Nanoseconds;
use stonecast_fabric::contract::{Story, World};
use stonecast_fabric::{BusyPoll, Park, Port, Runtime};
use stonecast_media::PersistentRegion;

use super::{Clock, Fault, Flavour, Loopback, Memory, Net, NodeState};

pub struct LoopbackWorld {
    net: Rc<RefCell<Net>>,
    executor: BusyPoll,
}

impl Park for Clock {
    fn now(&self) -> Nanoseconds {
        Clock::now(self)
    }

    fn park(&self, timeout: Nanoseconds) {
        self.now.set(self.now.get() + timeout);
    }
}

impl LoopbackWorld {
    /// A world of devices of one flavour, with one broken promise or none.
    pub fn new(flavour: Flavour, fault: Fault) -> Rc<Self> {
        let clock = Rc::new(Clock::default());
        let net = Net {
            flavour,
            fault,
            clock: clock.clone(),
            nodes: Vec::new(),
            listeners: Default::default(),
            requests: Default::default(),
            next_request: 0,
            next_address: 0x10_0000,
            wakers: Vec::new(),
            reads_in_the_call: 0,
        };
        Rc::new(Self {
            net: Rc::new(RefCell::new(net)),
            executor: BusyPoll::new(clock, 1_000),
        })
    }

    /// The executor.
    pub fn executor(&self) -> &BusyPoll {
        &self.executor
    }

    /// The number of regions that a node has registered.
    #[allow(
        dead_code,
        reason = "used by stories of other crates that include this file"
    )]
    pub fn region_count(&self, index: usize) -> usize {
        self.net.borrow().nodes[index]
            .regions
            .iter()
            .flatten()
            .count()
    }
}

impl World for LoopbackWorld {
    fn node(&self, index: usize) -> Rc<Port> {
        while self.net.borrow().nodes.len() <= index {
            self.net.borrow_mut().nodes.push(NodeState::default());
        }
        let port = Rc::new(
            Port::new(Rc::new(Loopback::new(self.net.clone(), index)), 1024)
                .expect("completion queues"),
        );
        self.executor.add_port(&port);
        port
    }

    fn address(&self, index: usize) -> String {
        format!("loopback:{index}")
    }

    fn runtime(&self) -> Rc<dyn Runtime> {
        self.executor.runtime()
    }

    fn run(&self, story: Story) {
        self.executor.block_on(story);
    }

    fn persistent_region(&self, _: usize, size: u64) -> Option<Rc<dyn PersistentRegion>> {
        self.net
            .borrow()
            .flavour
            .capable
            .then(|| Rc::new(Memory::new(size, true)) as Rc<dyn PersistentRegion>)
    }

    fn hold(&self, index: usize) {
        self.net.borrow_mut().nodes[index].held = true;
    }

    fn can_kill(&self) -> bool {
        self.net.borrow().flavour.capable
    }

    fn kill(&self, index: usize) {
        self.net.borrow_mut().kill(index);
    }
}
