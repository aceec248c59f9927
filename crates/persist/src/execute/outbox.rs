//! Turns an update into work requests: its bytes in registered memory, and the work requests of each step.

use std::rc::Rc;

use stonecast_base::Span;
use stonecast_fabric::{FlushPlacement, LocalSpan, MemoryRegion, Operation, Port, RemoteAddress};

use crate::execute::halves::Halves;
use crate::execute::message::{self, Kind};
use crate::execute::payload::{PLACE_GRAIN, Payload};
use crate::execute::session::Peer;
use crate::platform::FlushKind;
use crate::step::{Item, Message, Step};

/// Memory of a requester from which its updates are posted.
pub(super) struct Outbox {
    port: Rc<Port>,
    buffer: MemoryRegion,
    /// Start of the outbox in the buffer; earlier bytes belong to others.
    start: u64,
    /// The target of all work requests.
    peer: Peer,
    flush: FlushKind,
    /// Whether a flush must cover messages, whose receive buffer the requester does not know.
    flushes_messages: bool,
    /// End of the bytes in the buffer that belong to the current update.
    end: u64,
    /// Messages sent so far.
    messages: u64,
}

/// Bytes before an update: the target of a READ that serves as a FLUSH.
const SCRATCH_SIZE: u64 = 64;

/// An update in registered memory.
pub(super) struct Staged {
    /// Each part with its place in the responder's data.
    parts: Vec<(LocalSpan, u64)>,
}

impl Outbox {
    /// Bytes that updates of `update_size_max` bytes need. An update lies there as values or as a message, possibly
    /// with the places of two parts beside it.
    pub fn size(update_size_max: u32) -> u64 {
        SCRATCH_SIZE + 2 * u64::from(update_size_max) + 256
    }

    /// An outbox for the program of `halves`, in `buffer` from `start` on.
    pub fn new(
        port: Rc<Port>,
        buffer: MemoryRegion,
        start: u64,
        peer: Peer,
        halves: &Halves,
    ) -> Self {
        Self {
            port,
            buffer,
            start,
            peer,
            flush: halves.flush,
            flushes_messages: halves.sends_values(),
            end: start + SCRATCH_SIZE,
            messages: 0,
        }
    }

    /// The target of all work requests.
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Bytes for an update and its messages.
    pub fn room(&self) -> u64 {
        self.buffer.size - self.start - SCRATCH_SIZE
    }

    /// Copies the parts into registered memory, where writes find them.
    pub fn stage(&mut self, update: &Payload<'_>) -> Staged {
        let memory = self.port.device().memory(self.buffer);
        let mut parts = Vec::new();
        self.end = self.start + SCRATCH_SIZE;
        for (offset, bytes) in update.parts() {
            memory.write(self.end, bytes);
            let size = u32::try_from(bytes.len()).expect("checked against the buffer");
            let local = LocalSpan {
                region: self.buffer,
                offset: self.end,
                size,
            };
            parts.push((local, offset));
            self.end += u64::from(size).next_multiple_of(8);
        }
        Staged { parts }
    }

    /// The work requests of one step.
    pub fn operations(
        &mut self,
        post: Step,
        update: &Payload<'_>,
        staged: &Staged,
    ) -> Vec<Operation> {
        let at = |item: Item| staged.parts[item as usize];
        match post {
            Step::Write(item) => {
                let (local, offset) = at(item);
                vec![Operation::Write {
                    local,
                    remote: self.data(offset),
                }]
            }
            Step::WriteImmediate(item) => {
                let (local, offset) = at(item);
                let immediate = u32::try_from(offset / PLACE_GRAIN).expect("checked before");
                vec![Operation::WriteWithImmediate {
                    local,
                    remote: self.data(offset),
                    immediate,
                }]
            }
            Step::WriteAtomic(item) => {
                let (offset, bytes) = update.part(item);
                let value = u64::from_le_bytes(bytes.try_into().expect("checked before"));
                vec![Operation::AtomicWrite {
                    remote: self.data(offset),
                    value,
                }]
            }
            Step::Send(Message::Value(item)) => vec![self.send_values(&[update.part(item)])],
            Step::Send(Message::Both) => {
                vec![self.send_values(&[update.part(Item::A), update.part(Item::B)])]
            }
            Step::Send(Message::Address(item)) => {
                let (local, offset) = at(item);
                self.messages += 1;
                let place = Span::new(offset, local.size.into());
                let message = message::without_values(Kind::Places, self.messages, &[place]);
                vec![self.send(&message)]
            }
            Step::Flush => self.flush(staged),
            Step::Append(_) | Step::Read => unreachable!("only appenders append"),
            Step::Await(_) | Step::ReceiveAck => unreachable!("waited for, not posted"),
            Step::Receive(_) | Step::Copy(_) | Step::WriteBack(_) | Step::SendAck => {
                unreachable!("the step belongs to the responder")
            }
        }
    }

    fn send_values(&mut self, parts: &[(u64, &[u8])]) -> Operation {
        self.messages += 1;
        self.send(&message::with_values(self.messages, parts))
    }

    fn send(&mut self, bytes: &[u8]) -> Operation {
        let memory = self.port.device().memory(self.buffer);
        memory.write(self.end, bytes);
        let local = LocalSpan {
            region: self.buffer,
            offset: self.end,
            size: bytes.len() as u32,
        };
        self.end += bytes.len() as u64;
        Operation::Send { local }
    }

    /// One READ pushes all earlier writes out, wherever it reads; a native FLUSH covers only the bytes that it names.
    fn flush(&self, staged: &Staged) -> Vec<Operation> {
        let placement = match self.flush {
            FlushKind::Read => {
                let local = LocalSpan {
                    region: self.buffer,
                    offset: self.start,
                    size: 8,
                };
                return vec![Operation::Read {
                    local,
                    remote: self.data(0),
                }];
            }
            FlushKind::NativeGlobal => FlushPlacement::Global,
            FlushKind::NativePersistent => FlushPlacement::Persistent,
        };
        if self.flushes_messages {
            let (remote, size) = self.peer.receive_buffers.unwrap_or((self.data(0), 8));
            return vec![Operation::Flush {
                remote,
                size,
                placement,
            }];
        }
        let parts = staged.parts.iter();
        parts
            .map(|&(local, offset)| Operation::Flush {
                remote: self.data(offset),
                size: local.size.into(),
                placement,
            })
            .collect()
    }

    fn data(&self, offset: u64) -> RemoteAddress {
        RemoteAddress {
            address: self.peer.data.address + offset,
            rkey: self.peer.data.rkey,
        }
    }
}
