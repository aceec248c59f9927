//! Delivers arrivals and connection events by queue pair.
//!
//! ```text
//!   completion queue, connection events --pump--> route(queue pair)
//!                                                   |-- claimed by an inbox --> that inbox
//!                                                   '-- else, and requests ---> the port's own
//! ```
//!
//! A program that only serves, or is only one client, needs no inbox: everything belongs to the port. A server that is
//! a client of another server on the same thread gives that connection an inbox, and each side sees only its own
//! traffic.
//!
//! Invariants:
//! - An arrival is in exactly one queue. At most one inbox claims a queue pair.
//! - The arrivals of one queue pair keep their order, even if the queue pair is claimed late.
//! - A waiter is woken only by arrivals in its own inbox.

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use smallvec::SmallVec;
use stonecast_base::mutant;

use super::{Port, Received};
use crate::{ConnectionEvent, QueuePair};

/// The arrivals of the queue pairs that were claimed for it. Its drop discards arrivals that were not taken, and later
/// arrivals for its queue pairs belong to the port again.
///
/// ```
/// # use std::rc::Rc;
/// # use stonecast_fabric::{DeviceError, Inbox, Port, QueuePairOptions};
/// /// A queue pair whose answers reach this caller alone, whatever else happens on the port.
/// fn connect(port: &Rc<Port>, options: QueuePairOptions) -> Result<Inbox, DeviceError> {
///     let inbox = Inbox::new(port);
///     let qp = port.device().create_queue_pair(options)?;
///     inbox.claim(qp);
///     port.device().connect(qp, "shm:/run/stonecast", b"hello")?;
///     Ok(inbox)
/// }
/// ```
pub struct Inbox {
    port: Rc<Port>,
    number: u64,
}

impl Inbox {
    /// An inbox with no queue pairs.
    pub fn new(port: &Rc<Port>) -> Self {
        let number = port.inboxes.borrow_mut().open();
        Self {
            port: port.clone(),
            number,
        }
    }

    /// The port of the inbox.
    pub fn port(&self) -> &Rc<Port> {
        &self.port
    }

    /// Directs the arrivals on `qp` here until the queue pair is destroyed, including earlier arrivals.
    ///
    /// # Panics
    ///
    /// If another inbox has claimed the queue pair.
    pub fn claim(&self, qp: QueuePair) {
        self.port.inboxes.borrow_mut().claim(qp, self.number);
    }

    /// Takes the oldest arrival.
    pub fn take_received(&self) -> Option<Received> {
        self.port
            .inboxes
            .borrow_mut()
            .tray(self.number)
            .received
            .pop_front()
    }

    /// Takes the oldest connection event. Never a [`ConnectionEvent::Request`]: that belongs to no queue pair yet.
    pub fn take_event(&self) -> Option<ConnectionEvent> {
        self.port
            .inboxes
            .borrow_mut()
            .tray(self.number)
            .events
            .pop_front()
    }

    /// Whether an arrival or a connection event can be taken.
    pub fn has_activity(&self) -> bool {
        self.port.inboxes.borrow_mut().tray(self.number).has_any()
    }

    /// Waits until an arrival or a connection event can be taken.
    pub fn activity(&self) -> impl Future<Output = ()> {
        Activity::new(&self.port, self.number)
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        let _dropped_unborrowed = self.port.inboxes.borrow_mut().close(self.number);
    }
}

pub(super) type Wakers = SmallVec<[Waker; 8]>;

/// The inbox of everything that no other inbox has claimed.
pub(super) const OWN: u64 = 0;

/// All inboxes of a port.
#[derive(Default)]
pub(super) struct Inboxes {
    /// The inbox of the port itself.
    own: Tray,
    claimed: BTreeMap<u64, Tray>,
    /// The inbox that has claimed each queue pair.
    routes: BTreeMap<QueuePair, u64>,
    opened: u64,
    next_waiting: u64,
}

/// The content of one inbox.
#[derive(Default)]
pub(super) struct Tray {
    pub received: VecDeque<Received>,
    pub events: VecDeque<ConnectionEvent>,
    waiting: Vec<(u64, Waker)>,
}

impl Tray {
    pub fn has_any(&self) -> bool {
        !self.received.is_empty() || !self.events.is_empty()
    }

    /// Moves the tasks that wait to `woken`. Of many arrivals the first wakes them.
    #[inline]
    fn wake_into(&mut self, woken: &mut Wakers) {
        if !self.waiting.is_empty() {
            woken.extend(self.waiting.drain(..).map(|(_, waker)| waker));
        }
    }

    fn forget(&mut self, qp: QueuePair) -> Vec<Received> {
        let mut untaken = Vec::new();
        move_matching(&mut self.received, &mut untaken, |arrival| arrival.qp == qp);
        self.events.retain(|event| queue_pair_of(event) != Some(qp));
        untaken
    }
}

impl Inboxes {
    fn open(&mut self) -> u64 {
        self.opened += 1;
        self.claimed.insert(self.opened, Tray::default());
        self.opened
    }

    fn close(&mut self, number: u64) -> Option<Tray> {
        self.routes.retain(|_, inbox| *inbox != number);
        self.claimed.remove(&number)
    }

    fn claim(&mut self, qp: QueuePair, number: u64) {
        let before = self.routes.insert(qp, number);
        assert!(
            before.is_none_or(|before| before == number),
            "{qp:?} belongs to another inbox"
        );
        let tray = self.claimed.get_mut(&number).expect("the inbox is open");
        move_matching(&mut self.own.received, &mut tray.received, |arrival| {
            arrival.qp == qp
        });
        move_matching(&mut self.own.events, &mut tray.events, |event| {
            queue_pair_of(event) == Some(qp)
        });
    }

    pub fn tray(&mut self, number: u64) -> &mut Tray {
        match number {
            OWN => &mut self.own,
            _ => self.claimed.get_mut(&number).expect("the inbox is open"),
        }
    }

    fn tray_of(&mut self, qp: QueuePair) -> &mut Tray {
        if self.routes.is_empty() || mutant!(ArrivalToAnybody) {
            return &mut self.own;
        }
        match self.routes.get(&qp) {
            Some(&number) => self.tray(number),
            None => &mut self.own,
        }
    }

    /// Delivers arrivals, and adds the tasks to wake to `woken`.
    pub fn deliver(&mut self, arrivals: impl Iterator<Item = Received>, woken: &mut Wakers) {
        // A server with many clients has all of them in its own inbox.
        if self.routes.is_empty() {
            self.own.received.extend(arrivals);
            self.own.wake_into(woken);
            return;
        }
        for arrival in arrivals {
            let tray = self.tray_of(arrival.qp);
            tray.received.push_back(arrival);
            tray.wake_into(woken);
        }
    }

    /// Delivers an event, and adds the tasks to wake to `woken`.
    pub fn deliver_event(&mut self, event: ConnectionEvent, woken: &mut Wakers) {
        let tray = match queue_pair_of(&event) {
            Some(qp) => self.tray_of(qp),
            None => &mut self.own,
        };
        tray.events.push_back(event);
        tray.wake_into(woken);
    }

    /// Forgets the remaining arrivals and events of a destroyed queue pair: its number may come back. Returns the
    /// arrivals among them.
    pub fn forget(&mut self, qp: QueuePair) -> Vec<Received> {
        let untaken = self.tray_of(qp).forget(qp);
        self.routes.remove(&qp);
        untaken
    }
}

fn move_matching<T>(
    from: &mut VecDeque<T>,
    to: &mut impl Extend<T>,
    matches: impl FnMut(&T) -> bool,
) {
    let (matching, rest): (VecDeque<T>, _) = std::mem::take(from).into_iter().partition(matches);
    to.extend(matching);
    *from = rest;
}

/// The queue pair of an event.
fn queue_pair_of(event: &ConnectionEvent) -> Option<QueuePair> {
    match *event {
        ConnectionEvent::Request { .. } => None,
        ConnectionEvent::Established { qp, .. }
        | ConnectionEvent::Rejected { qp, .. }
        | ConnectionEvent::Disconnected { qp, .. } => Some(qp),
    }
}

/// Waits for an arrival or an event. Leaves nothing when it is dropped.
pub(super) struct Activity<'a> {
    port: &'a Port,
    inbox: u64,
    registered: Option<u64>,
}

impl<'a> Activity<'a> {
    pub fn new(port: &'a Port, inbox: u64) -> Self {
        Self {
            port,
            inbox,
            registered: None,
        }
    }
}

impl Future for Activity<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let waker = context.waker().clone();
        let mut inboxes = self.port.inboxes.borrow_mut();
        let next_waiting = inboxes.next_waiting;
        let tray = inboxes.tray(self.inbox);
        if tray.has_any() {
            drop(inboxes);
            drop(waker);
            return Poll::Ready(());
        }
        let known = tray
            .waiting
            .iter_mut()
            .find(|(number, _)| Some(*number) == self.registered);
        let replaced = known.map(|(_, known)| std::mem::replace(known, waker.clone()));
        if replaced.is_none() {
            tray.waiting.push((next_waiting, waker));
            inboxes.next_waiting += 1;
            drop(inboxes);
            self.registered = Some(next_waiting);
        } else {
            drop(inboxes);
        }
        drop(replaced);
        Poll::Pending
    }
}

impl Drop for Activity<'_> {
    fn drop(&mut self) {
        let Some(registered) = self.registered else {
            return;
        };
        let mut inboxes = self.port.inboxes.borrow_mut();
        let waiting = &mut inboxes.tray(self.inbox).waiting;
        let position = waiting.iter().position(|(number, _)| *number == registered);
        let waker = position.map(|position| waiting.swap_remove(position));
        drop(inboxes);
        drop(waker);
    }
}
