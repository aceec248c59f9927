//! NICs and the wires between them: the durations of messages, and partitions.
//!
//! A message that meets a partition is sent again until the partition ends or the sender gives up, as on reliable
//! connections; so a short partition is a delay and a long one ends the connection.

use std::rc::Rc;

use rand::RngExt as _;
use stonecast_base::{Nanoseconds, Random};

use crate::faults::{Fault, FaultState};
use crate::machine::{MachineOptions, Transport};
use crate::profile::MachineProfile;
use crate::time::Time;

/// A NIC, and the machine around it as far as the NIC sees it.
pub(crate) struct Nic {
    pub profile: MachineProfile,
    pub transport: Transport,
    inbound_stall_ns_max: Nanoseconds,
    outbound_stall_ns_max: Nanoseconds,
    /// The time at which it can send the next message, in picoseconds.
    send_free_ps: u64,
    /// The time at which it can take the next message, in picoseconds.
    take_free_ps: u64,
    /// The time at which it can execute the next read-modify-write, in picoseconds.
    atomic_free_ps: u64,
    /// The factor by which it is slower, and the end of that.
    slow: (u64, Nanoseconds),
}

/// Messages in one direction are blocked for a while. `None`: any machine.
struct Block {
    from: Option<u32>,
    to: Option<u32>,
    start: Nanoseconds,
    until: Nanoseconds,
}

/// Time between two attempts to send a message: a retransmission timeout of 67 ms, in steps that a simulation can
/// distinguish.
const RETRANSMIT_NS: Nanoseconds = 1_000_000;

/// The NICs of all machines, by machine.
pub(crate) struct Nics {
    time: Rc<Time>,
    faults: Rc<FaultState>,
    nics: Vec<Nic>,
    blocks: Vec<Block>,
    /// The random source of stalls.
    random: Random,
}

impl Nics {
    pub fn new(time: Rc<Time>, faults: Rc<FaultState>, random: Random) -> Self {
        Self {
            time,
            faults,
            nics: Vec::new(),
            blocks: Vec::new(),
            random,
        }
    }

    /// Adds the NIC of a new machine.
    pub fn add(&mut self, options: MachineOptions) -> u32 {
        self.nics.push(Nic {
            profile: options.profile,
            transport: options.transport,
            inbound_stall_ns_max: options.inbound_stall_ns_max,
            outbound_stall_ns_max: options.outbound_stall_ns_max,
            send_free_ps: 0,
            take_free_ps: 0,
            atomic_free_ps: 0,
            slow: (1, 0),
        });
        self.nics.len() as u32 - 1
    }

    /// The NIC of `machine`.
    pub fn of(&self, machine: u32) -> &Nic {
        &self.nics[machine as usize]
    }

    /// The time that an inbound write waits inside `machine`.
    pub fn inbound_stall(&mut self, machine: u32) -> Nanoseconds {
        self.draw(self.of(machine).inbound_stall_ns_max)
    }

    /// The time that a message of `machine` is held back before it leaves.
    pub fn outbound_stall(&mut self, machine: u32) -> Nanoseconds {
        self.draw(self.of(machine).outbound_stall_ns_max)
    }

    /// A time of at most `longest`.
    pub fn draw(&mut self, longest: Nanoseconds) -> Nanoseconds {
        if longest == 0 {
            0
        } else {
            self.random.random_range(0..=longest)
        }
    }

    /// The time at which a message of `size` bytes has left the NIC of `machine`, which takes it up at `at`.
    pub fn depart(&mut self, machine: u32, at: Nanoseconds, size: u64) -> Nanoseconds {
        let slowness = self.slowness(machine);
        let nic = &mut self.nics[machine as usize];
        let profile = &nic.profile;
        let cost = slowness
            * profile
                .nic_message_ps
                .max(size * profile.nic_byte_ps.max(profile.pcie_byte_ps));
        nic.send_free_ps = nic.send_free_ps.max(at * 1000) + cost;
        nic.send_free_ps.div_ceil(1000)
    }

    /// The time at which the NIC of `machine` has taken up a message of `size` bytes that reaches it at this moment.
    pub fn take(&mut self, machine: u32, size: u64) -> Nanoseconds {
        let now = self.time.now();
        let slowness = self.slowness(machine);
        let nic = &mut self.nics[machine as usize];
        let cost = slowness
            * nic
                .profile
                .nic_message_ps
                .max(size * nic.profile.pcie_byte_ps);
        nic.take_free_ps = nic.take_free_ps.max(now * 1000) + cost;
        nic.take_free_ps.div_ceil(1000)
    }

    /// The time at which the NIC of `machine` has executed a read-modify-write that it has taken up at `at`, behind all
    /// others.
    pub fn execute_atomic(&mut self, machine: u32, at: Nanoseconds) -> Nanoseconds {
        let slowness = self.slowness(machine);
        let nic = &mut self.nics[machine as usize];
        let cost = slowness * nic.profile.nic_atomic_ps;
        if cost == 0 {
            return at;
        }
        nic.atomic_free_ps = nic.atomic_free_ps.max(at * 1000) + cost;
        nic.atomic_free_ps.div_ceil(1000)
    }

    /// The travel time of a message from NIC to NIC.
    pub fn travel(&self, from: u32, to: u32) -> Nanoseconds {
        let (sender, receiver) = (&self.of(from).profile, &self.of(to).profile);
        // Within a machine the NIC loops messages back by itself.
        let wire = if from == to {
            0
        } else {
            sender.wire_ns.max(receiver.wire_ns)
        };
        let (sending, receiving) = (self.slowness(from), self.slowness(to));
        sending * sender.nic_processing_ns + wire + receiving * receiver.nic_processing_ns
    }

    /// The current slowness factor of the NIC of `machine`.
    fn slowness(&self, machine: u32) -> u64 {
        let (factor, until) = self.of(machine).slow;
        if until > self.time.now() {
            self.faults.hit(Fault::SlowNic);
            factor
        } else {
            1
        }
    }

    /// Slows the NIC of `machine` down by `factor`.
    pub fn slow_down(&mut self, machine: u32, factor: u64, until: Nanoseconds) {
        self.nics[machine as usize].slow = (factor.max(1), until);
    }

    /// Blocks messages from one machine to another for a span of time.
    pub fn block(
        &mut self,
        from: Option<u32>,
        to: Option<u32>,
        start: Nanoseconds,
        until: Nanoseconds,
    ) {
        self.blocks.push(Block {
            from,
            to,
            start,
            until,
        });
    }

    /// Ends all partitions, and restores the speed of every NIC.
    pub fn heal(&mut self) {
        self.blocks.clear();
        for nic in &mut self.nics {
            nic.slow = (1, 0);
        }
    }

    /// The arrival time of a message that is sent at `at` and would arrive at `arrival`; `None` if its sender gives up
    /// first.
    pub fn passage(
        &mut self,
        from: u32,
        to: u32,
        at: Nanoseconds,
        arrival: Nanoseconds,
    ) -> Option<Nanoseconds> {
        if self.blocks.is_empty() {
            return Some(arrival);
        }
        let now = self.time.now();
        self.blocks.retain(|block| block.until > now);
        let meets = |block: &&Block, at: Nanoseconds| {
            let matches = |side: Option<u32>, machine: u32| side.is_none_or(|side| side == machine);
            from != to
                && matches(block.from, from)
                && matches(block.to, to)
                && (block.start..block.until).contains(&at)
        };
        let mut sent = at;
        while let Some(block) = self.blocks.iter().find(|block| meets(block, sent)) {
            sent += (block.until - sent).next_multiple_of(RETRANSMIT_NS).max(1);
        }
        if sent > at {
            self.faults.hit(Fault::Partition);
        }
        let patience = self.of(from).profile.nic_give_up_ns;
        (sent - at < patience).then_some(arrival + (sent - at))
    }
}
