//! The metadata server, which knows the head of each key, and gives places out.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use stonecast_fabric::{Port, Runtime};

use super::CloverOptions;
use super::pointer::{Pointer, UNIT};
use crate::PublishedError;
use crate::rowan::message::{Kind, Outcome, Request};
use crate::rowan::serving::Serving;

/// The metadata server. The design does not cover a crash of this server, which keeps everything in
/// DRAM.
pub struct CloverController {
    options: CloverOptions,
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    heads: HashMap<u64, u64>,
    /// Bytes of each node's area that are given out.
    given: Vec<u64>,
    turn: usize,
    /// Versions that clients have given back.
    returned: u64,
}

impl CloverController {
    /// Serves on `port` and `runtime`.
    ///
    /// # Errors
    ///
    /// A device refused an object.
    pub fn open(
        options: &CloverOptions,
        port: Rc<Port>,
        runtime: &dyn Runtime,
    ) -> Result<(), PublishedError> {
        let serving = Serving::open(port, &options.controller_address())?;
        let state = State {
            // The word 0 points nowhere.
            given: vec![UNIT; options.nodes as usize],
            ..State::default()
        };
        let controller = Self {
            options: options.clone(),
            state: RefCell::new(state),
        };
        runtime.spawn(Box::pin(async move {
            loop {
                serving.port().activity().await;
                serving.take_events(|_| Ok((Vec::new(), None)));
                while let Some(arrival) = serving.take_request() {
                    let (outcome, body) = controller.serve(&arrival.request, &arrival.body);
                    serving.answer(arrival.qp, arrival.request.id, outcome, &body);
                }
            }
        }));
        Ok(())
    }

    fn serve(&self, request: &Request, body: &[u8]) -> (Outcome, Vec<u8>) {
        let state = &mut *self.state.borrow_mut();
        let given = match request.kind {
            Kind::Open => {
                let (keys, _) = body.as_chunks::<8>();
                let keys = keys.iter().map(|key| u64::from_le_bytes(*key));
                keys.map(|key| state.open(&self.options, key)).collect()
            }
            Kind::Allocate => state.give(
                &self.options,
                request.key.clamp(1, 8),
                self.options.places_each,
            ),
            Kind::Retire => {
                state.returned += (body.len() / 8) as u64;
                return (Outcome::Done, Vec::new());
            }
            _ => return (Outcome::Elsewhere, Vec::new()),
        };
        match given {
            Some(words) => {
                let bytes = words.iter().flat_map(|word| word.to_le_bytes()).collect();
                (Outcome::Done, bytes)
            }
            None => (Outcome::Full, Vec::new()),
        }
    }
}

impl State {
    /// The head of a key. A key without a head gets one.
    fn open(&mut self, options: &CloverOptions, key: u64) -> Option<u64> {
        if let Some(&head) = self.heads.get(&key) {
            return Some(head);
        }
        let head = self.give(options, 1, 1)?[0];
        self.heads.insert(key, head);
        Some(head)
    }

    /// Gives `count` places of `units` of one node out. The nodes take turns.
    fn give(&mut self, options: &CloverOptions, units: u64, count: u64) -> Option<Vec<u64>> {
        self.turn += 1;
        let node = self.turn % self.given.len();
        let first = self.given[node];
        let size = units * UNIT;
        if first + size * count > options.area_size {
            return None;
        }
        self.given[node] += size * count;
        let start = node as u64 * options.area_size + first;
        let pointer = |place: u64| {
            let pointer = Pointer {
                node: node as u32,
                offset: start + place * size,
                units,
            };
            pointer.to_word()
        };
        Some((0..count).map(pointer).collect())
    }
}
