//! The notices of one session: one notice is under way, and the next notice reports everything that is new by then.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use stonecast_fabric::{DeviceError, LocalSpan, MemoryRegion, Operation, Port, QueuePair, Status};
use stonecast_persist::execute::RECEIVING_SIZE;

use crate::notice::{NOTICE_SIZE, Notice};
use crate::stream::Told;

type Completion = Pin<Box<dyn Future<Output = Result<Status, DeviceError>>>>;

/// Sends the notices of one session, one at a time.
pub(super) struct Notices {
    memory: MemoryRegion,
    connection: u64,
    /// The terms of this backup, told once.
    terms: Option<[u8; RECEIVING_SIZE]>,
    /// The total of credits that was told.
    granted: u64,
    /// The want of room that was told.
    lacks_room: bool,
    under_way: Option<Completion>,
}

impl Notices {
    pub fn new(memory: MemoryRegion, connection: u64) -> Self {
        Self {
            memory,
            connection,
            terms: None,
            granted: 0,
            lacks_room: false,
            under_way: None,
        }
    }

    /// Gives the first notice the terms of this backup.
    pub fn begin(&mut self, terms: [u8; RECEIVING_SIZE]) {
        self.terms = Some(terms);
    }

    /// Whether a notice is still under way.
    pub fn is_busy(&mut self, context: &mut Context<'_>) -> Result<bool, String> {
        let Some(completion) = &mut self.under_way else {
            return Ok(false);
        };
        let Poll::Ready(ended) = completion.as_mut().poll(context) else {
            return Ok(true);
        };
        self.under_way = None;
        match ended {
            Ok(Status::Success) => Ok(false),
            Ok(status) => Err(status.to_string()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Sends a notice of everything that is new, if anything is. The caller makes sure that no notice is
    /// under way.
    pub fn send(
        &mut self,
        (port, qp): (&Rc<Port>, QueuePair),
        (granted, lacks_room): (u64, bool),
        told: Vec<Told>,
        context: &mut Context<'_>,
    ) -> Result<(), String> {
        let is_new = (granted, lacks_room) != (self.granted, self.lacks_room);
        if !is_new && told.is_empty() && self.terms.is_none() {
            return Ok(());
        }
        let notice = Notice {
            connection: self.connection,
            granted,
            terms: self.terms.take(),
            lacks_room,
            told,
        };
        (self.granted, self.lacks_room) = (granted, lacks_room);
        port.device().memory(self.memory).write(0, &notice.encode());
        let local = LocalSpan {
            region: self.memory,
            offset: 0,
            size: NOTICE_SIZE as u32,
        };
        let port = port.clone();
        self.under_way = Some(Box::pin(async move {
            port.submit(qp, &[Operation::Send { local }]).await
        }));
        // The first poll posts.
        self.is_busy(context).map(drop)
    }
}
