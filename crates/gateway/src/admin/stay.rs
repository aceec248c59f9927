//! The stages of a connection of the admin port, each with a bounded number of places.
//!
//! ```text
//!   accepted --> head: the request has not come --> answer: the store is asked, the answer is on its way --> ended
//!                  `--> /healthz, refusals: answered from there
//! ```
//!
//! Anybody may connect, and nothing is known of a connection before its request has arrived. Both stages therefore have
//! places of their own: connections without a request take no places from the answers, and answers that the clients do
//! not read take no places from new connections.

use std::cell::RefCell;
use std::rc::Rc;

use super::cut::Cut;
use crate::origin::Origin;
use crate::places::{PlaceNumber, Places};

/// The most connections at a time whose request has not arrived; the oldest makes way.
pub const HEADS_MAX: usize = 256;
/// The most questions at a time that wait for the store or for a client that reads the answer; the oldest makes way.
pub const ANSWERS_MAX: usize = 64;

/// All connections.
pub struct Crowd {
    heads: RefCell<Places<Rc<Cut>>>,
    answers: RefCell<Places<Rc<Cut>>>,
}

/// The place of a connection. Dropping the value gives the place back.
pub struct Stay {
    crowd: Rc<Crowd>,
    /// The origin of the connection.
    pub origin: Origin,
    place: RefCell<Option<Place>>,
}

enum Place {
    Head(PlaceNumber, Rc<Cut>),
    Answer(PlaceNumber),
}

impl Default for Crowd {
    fn default() -> Self {
        Self {
            heads: RefCell::new(Places::new(HEADS_MAX)),
            answers: RefCell::new(Places::new(ANSWERS_MAX)),
        }
    }
}

impl Stay {
    /// The stay of a connection from `origin`. The connection has no place before [`Stay::enter`].
    pub fn new(crowd: Rc<Crowd>, origin: Origin) -> Rc<Self> {
        Rc::new(Self {
            crowd,
            origin,
            place: RefCell::new(None),
        })
    }

    /// Takes a place among the connections whose request has not arrived.
    pub fn enter(&self, cut: Rc<Cut>) {
        let number = take(&self.crowd.heads, self.origin, cut.clone());
        *self.place.borrow_mut() = Some(Place::Head(number, cut));
    }

    /// Moves to the answers: the request has arrived and takes time.
    pub fn answer(&self) {
        let mut place = self.place.borrow_mut();
        if let Some(Place::Head(number, cut)) = place.take() {
            self.crowd.heads.borrow_mut().give_back(number);
            *place = Some(Place::Answer(take(&self.crowd.answers, self.origin, cut)));
        }
    }
}

fn take(places: &RefCell<Places<Rc<Cut>>>, origin: Origin, cut: Rc<Cut>) -> PlaceNumber {
    let (number, leaves) = places.borrow_mut().take(origin, cut);
    if let Some(leaves) = leaves {
        leaves.cut();
    }
    number
}

impl Drop for Stay {
    fn drop(&mut self) {
        match self.place.take() {
            Some(Place::Head(number, _)) => drop(self.crowd.heads.borrow_mut().give_back(number)),
            Some(Place::Answer(number)) => drop(self.crowd.answers.borrow_mut().give_back(number)),
            None => {}
        }
    }
}
