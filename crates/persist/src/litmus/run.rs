//! Runs for people: the events, the place of every piece of data after each event, and the effect of a power cut.

use std::fmt;

use serde::Serialize;

use crate::step::{Item, Message, Party, Step};
use crate::words::words;

use super::machine::{Event, Machine};
use super::state::{Stage, State};
use super::survival::{Crash, Damage, Fate};

/// The place of a piece of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// Not sent, or not copied, yet.
    Nowhere,
    /// In the requester's send queue or on the wire.
    Network,
    /// In a buffer of the responder's NIC.
    Nic,
    /// In the I/O controller, visible.
    IoController,
    /// In a cache; on a page file, in the page cache.
    Cache,
    /// In the memory controller or the DIMM; on a page file, synced.
    Controller,
    /// In a receive buffer in DRAM.
    Dram,
    /// Forgotten by a NIC that was reset.
    Lost,
}

words! { Place, "place", "nowhere, network, nic, io-controller, cache, controller, dram or lost",
    Nowhere = "nowhere";
    Network = "network";
    Nic = "nic";
    IoController = "io-controller";
    Cache = "cache";
    Controller = "controller";
    Dram = "dram";
    Lost = "lost";
}

/// The effect of a power cut at a moment on a piece of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Survival {
    /// The piece is gone.
    Lost,
    /// Undecided: a cache may have written it back early.
    Either,
    /// The piece is there after recovery.
    Kept,
}

words! { Survival, "survival", "lost, either or kept",
    Lost = "lost";
    Either = "either";
    Kept = "kept";
}

/// A piece of data at a moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Remnant {
    /// `a` or `b` at its place, or `message(...)` in a receive buffer.
    pub name: String,
    /// The place.
    pub place: Place,
    /// The effect of a power cut on it at this moment.
    pub survival: Survival,
}

/// A request without data of the update, or an answer: a flush, an announcement of a write, an acknowledgement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Signal {
    /// `flush`, `send(&a)` or `ack`.
    pub name: String,
    /// The place; `None` before it is posted.
    pub place: Option<Place>,
    /// Whether its purpose is fulfilled: the flush is answered, the acknowledgement received.
    pub ended: bool,
}

/// An event and the state after it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Frame {
    /// The event: the name of a step, or a sentence about hardware.
    pub event: String,
    /// The party that acted; `None` for the hardware.
    #[serde(skip)]
    pub party: Option<Party>,
    /// The place of every piece of data at this moment.
    pub pieces: Vec<Remnant>,
    /// The requests and answers without data, in the order of posting.
    pub signals: Vec<Signal>,
    /// Whether the requester takes the update for durable at this moment.
    pub concluded: bool,
    /// The findings of a recovery for `a` and `b` if the power failed at this moment.
    pub survivals: Vec<Survival>,
}

/// A power cut that ends a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PowerCut {
    /// The pieces that are kept.
    pub kept: Vec<String>,
    /// The promise that it breaks.
    pub broken: String,
    #[serde(skip)]
    damage: Option<Damage>,
}

impl PowerCut {
    /// The promise that it breaks.
    pub fn damage(&self) -> Option<Damage> {
        self.damage
    }
}

/// A run from the start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Run {
    /// The start, then every event.
    pub frames: Vec<Frame>,
    /// The power cut that ends it, if any.
    pub power_cut: Option<PowerCut>,
}

impl Run {
    pub(super) fn new(machine: &Machine, events: &[Event], crash: Option<Crash>) -> Self {
        let mut state = State::START;
        let mut frames = vec![frame(machine, state, "start".to_owned(), None)];
        for event in events {
            let party = match event {
                Event::Step(step) => Some(step.party()),
                _ => None,
            };
            let told = tell(machine, *event);
            machine.successors(state, |possible, next| {
                if possible == *event {
                    state = next;
                }
            });
            frames.push(frame(machine, state, told, party));
        }
        let power_cut = crash.map(|crash| {
            let names = pieces(machine, state);
            let kept = names
                .iter()
                .filter(|(line, _)| crash.kept >> line & 1 == 1)
                .map(|(_, piece)| piece.name.clone())
                .collect();
            PowerCut {
                kept,
                broken: crash.damage.to_string(),
                damage: Some(crash.damage),
            }
        });
        Self { frames, power_cut }
    }

    /// One line for each event, and one for the power cut.
    pub fn lines(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.frames[1..]
            .iter()
            .map(|frame| frame.event.clone())
            .collect();
        if let Some(cut) = &self.power_cut {
            let kept = if cut.kept.is_empty() {
                "nothing".to_owned()
            } else {
                cut.kept.join(", ")
            };
            lines.push(format!("power cut: {kept} survives; {}", cut.broken));
        }
        lines
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost(item) => write!(formatter, "the requester has concluded and {item} is lost"),
            Self::Reordered => formatter.write_str("b survives without a"),
        }
    }
}

fn frame(machine: &Machine, state: State, event: String, party: Option<Party>) -> Frame {
    let items: &[Item] = if machine.is_compound() {
        &[Item::A, Item::B]
    } else {
        &[Item::A]
    };
    Frame {
        event,
        party,
        pieces: pieces(machine, state)
            .into_iter()
            .map(|(_, piece)| piece)
            .collect(),
        signals: signals(machine, state),
        concluded: machine.has_concluded(state),
        survivals: items
            .iter()
            .map(|item| survival(machine.fate_of(state, *item)))
            .collect(),
    }
}

/// The pieces of data of a program, each with its bit in [`Crash::kept`].
fn pieces(machine: &Machine, state: State) -> Vec<(usize, Remnant)> {
    let mut pieces = Vec::new();
    for (op, post) in machine.posted.iter().enumerate() {
        let in_dram = post.is_message() && machine.fate_in_memory(op) == Fate::Lost;
        let name = match post.step {
            Step::Send(message @ (Message::Value(_) | Message::Both)) => {
                format!("message({message})")
            }
            Step::Append(Message::Both) if post.line < machine.line_count => "entry(a)".to_owned(),
            Step::Append(Message::Both) => "entry(b)".to_owned(),
            Step::Append(message) => format!("entry({message})"),
            _ => match post.target() {
                Some(item) => item.to_string(),
                None => continue,
            },
        };
        let survival = survival(machine.fate(state, op));
        pieces.push((
            op,
            Remnant {
                name,
                place: place(state.stage(op), in_dram),
                survival,
            },
        ));
    }
    for item in [Item::A, Item::B] {
        if machine.copies(item) {
            let stage = state.copy(item);
            let piece = Remnant {
                name: item.to_string(),
                place: place(stage, false),
                survival: survival(machine.fate_at(stage)),
            };
            pieces.push((machine.posted.len() + item as usize, piece));
        }
    }
    pieces
}

/// The outstanding requests and answers that carry no data of the update.
fn signals(machine: &Machine, state: State) -> Vec<Signal> {
    let mut signals = Vec::new();
    for (op, post) in machine.posted.iter().enumerate() {
        let stage = state.stage(op);
        let place = (stage != Stage::Unposted).then(|| place(stage, post.is_message()));
        match post.step {
            Step::Flush | Step::Read => {
                let ended = stage == Stage::Visible;
                signals.push(Signal {
                    name: name_of(post.step),
                    // The answer has come back.
                    place: if ended { Some(Place::Nowhere) } else { place },
                    ended,
                });
            }
            Step::Send(message @ Message::Address(_)) => signals.push(Signal {
                name: format!("send({message})"),
                place,
                ended: false,
            }),
            _ => {}
        }
    }
    let acks = machine.acks(state);
    signals.extend((0..acks.all).map(|ack| {
        let ended = ack < acks.received;
        let sent = (ack < acks.sent).then_some(Place::Network);
        Signal {
            name: "ack".to_owned(),
            place: if ended { Some(Place::Nowhere) } else { sent },
            ended,
        }
    }));
    signals
}

fn place(stage: Stage, in_dram: bool) -> Place {
    match stage {
        Stage::Unposted => Place::Nowhere,
        Stage::Queued => Place::Network,
        Stage::Nic => Place::Nic,
        Stage::Lost => Place::Lost,
        _ if in_dram => Place::Dram,
        Stage::Visible => Place::IoController,
        Stage::Cache => Place::Cache,
        Stage::Controller => Place::Controller,
    }
}

fn survival(fate: Fate) -> Survival {
    match fate {
        Fate::Lost => Survival::Lost,
        Fate::Either => Survival::Either,
        Fate::Kept => Survival::Kept,
    }
}

/// The name of the request that the requester posts in `step`.
fn name_of(step: Step) -> String {
    step.to_string().trim_start_matches("rq.").to_owned()
}

/// An event as a sentence.
fn tell(machine: &Machine, event: Event) -> String {
    let name = |op: usize| name_of(machine.posted[op].step);
    match event {
        Event::Step(step) => step.to_string(),
        Event::Arrives(op) => format!("{} reaches the responder's NIC", name(op)),
        Event::TakesEffect(op) if machine.posted[op].is_flush() => {
            format!("{} is answered", name(op))
        }
        Event::TakesEffect(op) => format!("{} becomes visible", name(op)),
        Event::Drains(op) if machine.inbound_to_cache() => {
            format!("{} moves into the cache", name(op))
        }
        Event::Drains(op) => format!("{} moves into the memory controller", name(op)),
        Event::Reset => "the responder's NIC resets".to_owned(),
    }
}
