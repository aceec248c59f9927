//! The work beside a batch: connections that come and go, and the cleaner.

use std::cell::OnceCell;
use std::cell::RefCell;
use std::rc::{Rc, Weak};

use stonecast_fabric::{ConnectionEvent, Port};

use super::clean::Sweeper;
use super::clients::Clients;
use super::clients::returns::{drain_intents, settle_returned};
use super::node::store::ServerNode;
use super::state::State;
use crate::error::StoreError;

/// Does the work beside a batch. The work continues while a batch waits for copies.
pub(super) struct Attendant {
    port: Rc<Port>,
    sweeper: Sweeper,
    /// The node, which takes the requests of other nodes. The cell is set once, if at all.
    node: OnceCell<Weak<ServerNode>>,
}

impl Attendant {
    pub fn new(port: Rc<Port>, sweeper: Sweeper) -> Self {
        Self {
            port,
            sweeper,
            node: OnceCell::new(),
        }
    }

    /// Hands requests of other nodes to `node` from now on.
    pub fn serve(&self, node: &Rc<ServerNode>) {
        let set = self.node.set(Rc::downgrade(node));
        assert!(set.is_ok(), "a server is one node");
    }

    /// Handles events of connections, and takes intents and memory that clients lost. Returns whether there were
    /// intents.
    pub fn take_events(&self, state: &RefCell<State>) -> bool {
        while let Some(event) = self.port.take_event() {
            match event {
                ConnectionEvent::Request {
                    request,
                    peer,
                    private_data,
                } => {
                    let node = self.node.get().and_then(Weak::upgrade);
                    if node.is_some_and(|node| node.take_request(request, &private_data)) {
                        continue;
                    }
                    let State {
                        clients, journal, ..
                    } = &mut *state.borrow_mut();
                    let Clients {
                        sessions,
                        admission,
                        ..
                    } = clients;
                    let sequences = &journal.sequences;
                    admission.admit(sessions, (request, &peer), &private_data, sequences);
                }
                ConnectionEvent::Disconnected { qp, .. } => {
                    let Clients {
                        sessions,
                        departures,
                        ..
                    } = &mut state.borrow_mut().clients;
                    departures.end_session(sessions, qp);
                }
                ConnectionEvent::Established { .. } | ConnectionEvent::Rejected { .. } => {}
            }
        }
        let state = &mut *state.borrow_mut();
        settle_returned(state);
        let owner = state.journal.kept.owner();
        if owner.is_some_and(|owner| state.clients.sessions.get(owner).is_none()) {
            state.journal.kept.end();
        }
        drain_intents(state)
    }

    /// Does the cleaning that is due.
    pub async fn tend_log(&self, state: &RefCell<State>) -> Result<(), StoreError> {
        self.sweeper.tend(state).await
    }
}
