//! Future events in the order of virtual time; events of the same moment in the order in which they were decided.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use stonecast_base::Nanoseconds;

/// An event. Small, because the queue moves it; the number names an entry of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Event {
    /// A thread continues on its core.
    Thread(u32),
    /// The future that [`crate::World::block_on`] drives continues.
    Root,
    /// A timer is due.
    Timer(u32),
    /// A NIC learns of work on a queue pair.
    Doorbell(u32),
    /// A queue pair tries again after a refusal for lack of a receive buffer.
    Retry(u32),
    /// A message reaches the responder's NIC.
    Arrive(u32),
    /// The next part of a message reaches the responder's memory, or is fetched from it.
    Place(u32),
    /// A responder gives a queue pair up because of a message that it refused.
    Refuse(u32),
    /// The answer to a message reaches the requester.
    Acknowledge(u32),
    /// A message of the connection manager reaches its destination.
    Control(u32),
    /// A requester gives up on a message without an answer.
    GiveUp(u32),
    /// A delayed completion arrives.
    Complete(u32),
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    time: Nanoseconds,
    serial: u64,
    event: Event,
}

#[derive(Default)]
pub(crate) struct Queue {
    heap: BinaryHeap<Reverse<Entry>>,
    serial: u64,
}

impl Queue {
    /// Lets `event` happen at `time`.
    pub fn push(&mut self, time: Nanoseconds, event: Event) {
        self.serial += 1;
        self.heap.push(Reverse(Entry {
            time,
            serial: self.serial,
            event,
        }));
    }

    /// Takes the next event.
    pub fn pop(&mut self) -> Option<(Nanoseconds, Event)> {
        self.heap
            .pop()
            .map(|Reverse(entry)| (entry.time, entry.event))
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.heap.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_in_the_order_of_time_and_then_of_decision() {
        let mut queue = Queue::default();
        for (time, number) in [(5, 1), (3, 2), (5, 3), (3, 4), (4, 5), (5, 0)] {
            queue.push(time, Event::Timer(number));
        }
        let order: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(
            order,
            [(3, 2), (3, 4), (4, 5), (5, 1), (5, 3), (5, 0)]
                .map(|(time, number)| (time, Event::Timer(number)))
        );
    }
}
