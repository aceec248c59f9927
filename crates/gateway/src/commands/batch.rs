//! A batch under way: its commands, and the outlet of its replies.

use stonecast_base::Nanoseconds;

use super::context::Context;
use super::operation::{Arguments, Operation};
use super::reply::Reply;
use super::session::Session;
use crate::outlet::Outlet;
use crate::resp::{Commands, ReplyWriter};

/// A batch under way.
pub struct Run<'r, 'a> {
    /// State that all connections of this thread share.
    pub context: &'r Context,
    /// The connection's state.
    pub session: &'r mut Session,
    /// The outlet of the replies.
    pub outlet: &'r mut Outlet,
    /// The commands.
    pub operations: &'r [Operation<'a>],
    /// The arguments of the commands as received: the bytes, and the places of the arguments in them.
    pub requests: (&'a [u8], &'a Commands),
    /// The time at which the commands arrived.
    pub arrived_at: Nanoseconds,
}

impl<'a> Run<'_, 'a> {
    /// The writer of the replies.
    pub fn writer(&mut self) -> ReplyWriter<'_> {
        ReplyWriter {
            output: self.outlet.output(),
            protocol: self.session.protocol,
        }
    }

    /// The arguments of command number `index`.
    pub fn arguments(&self, index: usize) -> Arguments<'a> {
        let (input, commands) = self.requests;
        Arguments::new(input, commands.places(index))
    }

    /// Writes a reply.
    pub fn reply(&mut self, reply: &Reply<'_>) {
        self.context
            .thread
            .counters
            .failures
            .add(u64::from(matches!(reply, Reply::Error(_))));
        reply.write(&mut self.writer());
    }
}
