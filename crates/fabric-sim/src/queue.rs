//! Future events in the order of virtual time; events of the same moment in the order in which they were decided.
//!
//! Time does not go back, so no event is compared with another one. A moment is a number of digits of [`BITS`] bits,
//! and an event lies at the highest digit in which its moment differs from the current one, in the list for the value
//! of that digit there:
//!
//! ```text
//!   level     list of the events of
//!     0       0        1        2   ...  63            a moment each
//!     1       0..64    64..128      ...  63 * 64..     64 moments each
//!     2       0..4096  ...
//! ```
//!
//! The next event is in the first list of the lowest level that has any. If that is not level 0, time goes to the start
//! of the list's moments, which spreads the list over the levels below. Most events are some microseconds away, so an
//! event is moved once or twice.
//!
//! Invariant: events of one moment are in one list, in the order in which they were decided, because a list is spread
//! only when the levels below have nothing.

use stonecast_base::Nanoseconds;

/// An event. Small, because the queue moves it; the number names an entry of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// An event in a list.
struct Node {
    time: Nanoseconds,
    event: Event,
    /// The next one of the list, or of the free nodes.
    next: u32,
}

/// The ends of a list that has something.
#[derive(Clone, Copy, Default)]
struct List {
    first: u32,
    last: u32,
}

/// Bits of a digit: a level's lists have one word of bits that say which of them have something.
const BITS: u32 = 6;
const LISTS: usize = 1 << BITS;
const LEVELS: usize = Nanoseconds::BITS.div_ceil(BITS) as usize;
/// No node.
const NONE: u32 = u32::MAX;

pub(crate) struct Queue {
    /// The moment of the last event that was taken.
    now: Nanoseconds,
    /// For each level, a bit for each list that has something.
    filled: [u64; LEVELS],
    lists: [[List; LISTS]; LEVELS],
    nodes: Vec<Node>,
    /// The first free node.
    free: u32,
}

impl Default for Queue {
    fn default() -> Self {
        Self {
            now: 0,
            filled: [0; LEVELS],
            lists: [[List::default(); LISTS]; LEVELS],
            nodes: Vec::new(),
            free: NONE,
        }
    }
}

impl Queue {
    /// Lets `event` happen at `time`, which is not before the last event that was taken.
    pub fn push(&mut self, time: Nanoseconds, event: Event) {
        assert!(
            time >= self.now,
            "{event:?} at {time}, but the time is {}",
            self.now
        );
        let node = Node {
            time,
            event,
            next: NONE,
        };
        let index = self.free;
        if index == NONE {
            self.nodes.push(node);
            self.link(self.nodes.len() as u32 - 1, time);
        } else {
            let place = &mut self.nodes[index as usize];
            self.free = place.next;
            *place = node;
            self.link(index, time);
        }
    }

    /// Takes the next event.
    pub fn pop(&mut self) -> Option<(Nanoseconds, Event)> {
        let mut level = self.filled.iter().position(|lists| *lists != 0)?;
        while level > 0 {
            self.spread(level);
            level = self.filled.iter().position(|lists| *lists != 0)?;
        }
        let number = self.filled[0].trailing_zeros() as usize;
        let list = &mut self.lists[0][number];
        let index = list.first;
        let node = &mut self.nodes[index as usize];
        if index == list.last {
            self.filled[0] ^= 1 << number;
        }
        list.first = node.next;
        node.next = self.free;
        self.free = index;
        self.now = node.time;
        Some((node.time, node.event))
    }

    /// Lets time go to the start of the first list of `level`, and moves that list's events to the levels below, which
    /// have none.
    fn spread(&mut self, level: usize) {
        let number = self.filled[level].trailing_zeros() as usize;
        self.filled[level] ^= 1 << number;
        let List { first, last } = self.lists[level][number];
        let below = BITS * level as u32;
        self.now = self.nodes[first as usize].time >> below << below;
        let mut index = first;
        loop {
            let Node { time, next, .. } = self.nodes[index as usize];
            self.link(index, time);
            if index == last {
                break;
            }
            index = next;
        }
    }

    /// Puts node `index`, an event at `time`, at the end of its list.
    #[inline]
    fn link(&mut self, index: u32, time: Nanoseconds) {
        let level = (time ^ self.now).checked_ilog2().unwrap_or(0) / BITS;
        let number = (time >> (level * BITS)) as usize % LISTS;
        let list = &mut self.lists[level as usize][number];
        let filled = &mut self.filled[level as usize];
        if *filled & 1 << number == 0 {
            *filled |= 1 << number;
            list.first = index;
        } else {
            self.nodes[list.last as usize].next = index;
        }
        list.last = index;
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.filled = [0; LEVELS];
        self.nodes.clear();
        self.free = NONE;
    }
}

#[cfg(test)]
mod tests {
    use rand::RngExt as _;
    use stonecast_base::random_from_seed;

    use super::*;

    /// The order that the module promises, from a list that is searched for each event.
    #[derive(Default)]
    struct Model {
        now: Nanoseconds,
        events: Vec<(Nanoseconds, Event)>,
    }

    impl Model {
        fn pop(&mut self) -> Option<(Nanoseconds, Event)> {
            let first = self.events.iter().map(|(time, _)| *time).min()?;
            let position = self.events.iter().position(|(time, _)| *time == first)?;
            self.now = first;
            Some(self.events.remove(position))
        }
    }

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

    /// Needs the order inside a list: with new events at its start, events of one moment come in the wrong order.
    #[test]
    fn events_come_in_order_whatever_is_decided_meanwhile() {
        for seed in 0..200 {
            let mut random = random_from_seed(seed);
            let (mut queue, mut model) = (Queue::default(), Model::default());
            for number in 0..500 {
                if random.random_range(0..5) < 3 {
                    let reach = 1u64 << random.random_range(0..20);
                    let time = model.now + random.random_range(0..reach);
                    queue.push(time, Event::Timer(number));
                    model.events.push((time, Event::Timer(number)));
                } else {
                    assert_eq!(queue.pop(), model.pop(), "seed {seed}");
                }
            }
            while let Some(expected) = model.pop() {
                assert_eq!(queue.pop(), Some(expected), "seed {seed}");
            }
            assert_eq!(queue.pop(), None);
        }
    }

    #[test]
    fn a_queue_that_forgot_everything_takes_events_again() {
        let mut queue = Queue::default();
        for time in [3, 3, 9, u64::MAX] {
            queue.push(time, Event::Root);
        }
        assert_eq!(queue.pop(), Some((3, Event::Root)));
        queue.clear();
        assert_eq!(queue.pop(), None);
        queue.push(4, Event::Root);
        assert_eq!(queue.pop(), Some((4, Event::Root)));
    }

    #[test]
    #[should_panic(expected = "the time is 7")]
    fn an_event_in_the_past_is_a_mistake_of_the_world() {
        let mut queue = Queue::default();
        queue.push(7, Event::Root);
        queue.pop();
        queue.push(6, Event::Root);
    }
}
