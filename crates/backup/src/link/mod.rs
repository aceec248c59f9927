//! The requester's half: the path from one primary node to one backup.
//!
//! ```text
//!   append --> staging memory --> flush: SEND ... SEND, READ ----> segments of the backup
//!                                        notices: credits, answers <----
//!   report <-- Persisted, with connection, stream and version
//! ```
//!
//! A link lives as long as its connection. A new link has another number, and knows nothing of the entries of the link
//! before: a primary sends entries again that were not reported.

mod connect;
mod ears;
mod error;
mod pieces;
mod sent;

use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, Waker, ready};

use stonecast_base::Nanoseconds;
use stonecast_fabric::{Device, LocalSpan, MemoryRegion, Runtime};
use stonecast_persist::Persisted;
use stonecast_persist::execute::{AppendFailure, Appender, NotAppended};
use stonecast_replication::{AppendKey, Entry, HEADER_SIZE, Kind};
use stonecast_session::{Endpoint, Listener, Staging};

use crate::stream::{Standing, StreamName, Told};
pub use connect::{LinkOptions, NotLinked};
use ears::Ears;
pub use ears::Trouble;
pub use error::{LinkEnded, NoCreditInTime, NotSent};
use pieces::Pieces;
pub use sent::Posted;
use sent::Sent;

/// Appends the entries of all shards that one node leads to one backup.
pub struct BackupLink {
    endpoint: Endpoint,
    connection: u64,
    key: AppendKey,
    appender: Appender,
    ears: Ears,
    source: Source,
    sent: Sent,
    /// The entry whose first bytes are appended, and the number of these bytes.
    begun: Option<(Posted, u32)>,
    limits: Limits,
    trouble: Option<Trouble>,
    listener: Listener,
    /// The next report, or the end, if a poll has found it.
    heard: Option<Result<Report, LinkEnded>>,
}

/// The memory that messages are sent from.
struct Source {
    memory: MemoryRegion,
    staging: Staging,
}

impl Source {
    /// Copies a message into the next free place; `None`: no place is free. The place stays free until
    /// [`Source::keep`].
    fn place(&self, device: &dyn Device, bytes: &[u8]) -> Option<LocalSpan> {
        let size = bytes.len() as u64;
        let offset = self.staging.room(size)?;
        let memory = device.memory(self.memory);
        memory.write(offset, bytes);
        // The next entry usually follows this one.
        memory.prefetch(offset + size, size);
        Some(LocalSpan {
            region: self.memory,
            offset,
            size: size as u32,
        })
    }

    /// Keeps the bytes of a place until [`Source::free_oldest`].
    fn keep(&mut self, place: LocalSpan) {
        self.staging.push(place.offset, place.size.into());
    }

    fn free_oldest(&mut self) {
        self.staging.pop();
    }
}

struct Limits {
    entries_max: usize,
    pieces: Pieces,
    grain: u32,
}

/// An entry is persisted on the backup. The report names everything that a primary has to compare: a report of an
/// earlier connection, term or join says nothing of a later one.
#[derive(Debug)]
pub struct Report {
    /// Number that the backup gave the connection.
    pub connection: u64,
    /// The stream of the entry.
    pub stream: StreamName,
    /// The version of the entry.
    pub version: u64,
    /// The kind of the entry. A horizon repeats the version of the record before it, and an answer speaks for records:
    /// the link reports a horizon when all records before it are persisted. The loss of a horizon loses nothing.
    pub kind: Kind,
    /// The proof.
    pub persisted: Persisted,
}

impl BackupLink {
    /// Number that the backup gave the connection.
    pub fn connection(&self) -> u64 {
        self.connection
    }

    /// Bytes that a record with a body of `body_size` bytes takes at the backup, with headers and the places that stay
    /// empty.
    pub fn room_of(&self, body_size: usize) -> u64 {
        let pieces = self.limits.pieces.of(body_size);
        let costs = pieces.map(|(_, bytes)| self.appender.cost((HEADER_SIZE + bytes.len()) as u32));
        costs.sum::<u64>() * u64::from(self.limits.grain)
    }

    /// Whether the backup's device packs entries, and reports none: nothing there wakes a backup at rest.
    pub fn is_unreported(&self) -> bool {
        self.limits.grain < self.limits.pieces.message_size_max()
    }

    /// Whether the backup's store has no room for more records, by its last notice. A primary that goes on to append
    /// fills what the backup keeps for entries on their way, and waits for cleaning or deletes then.
    pub fn lacks_room(&self) -> bool {
        self.ears.lacks_room
    }

    /// Messages that were taken and not reported.
    pub fn unreported(&self) -> usize {
        self.sent.len()
    }

    /// Takes an entry for a stream of the backup's `join`, and gives the entry the header that the backup's pool wants.
    /// The next [`BackupLink::flush`] sends it. A record that is longer than a message of the backup goes out in
    /// pieces.
    ///
    /// # Errors
    /// [`NotSent`]. Pieces that were taken before stay taken: the next call appends the same entry again, and continues
    /// after them.
    pub fn append(&mut self, join: u64, entry: &Entry, body: &[u8]) -> Result<(), NotSent> {
        self.hear();
        let posted = Posted::new(entry, join);
        if self.sent.is_closed(posted.stream) {
            return Err(NotSent::Closed(posted.stream));
        }
        if self.trouble.is_some() {
            return Err(NotSent::Ended);
        }
        let begun = self.begun.take_if(|(begun, _)| *begun == posted);
        let begun = begun.map_or(0, |(_, taken)| taken);
        let pieces = self.limits.pieces;
        for (piece, bytes) in pieces.of(body.len()) {
            if piece.offset < begun {
                continue;
            }
            let mut message = vec![0; HEADER_SIZE];
            message.extend_from_slice(&body[bytes]);
            entry.write_piece(&self.key, piece, &mut message);
            let posted = Posted {
                is_whole: piece.is_last,
                ..posted
            };
            if let Err(not_sent) = self.append_message(posted, &message) {
                self.begun = (piece.offset > 0).then_some((Posted::new(entry, join), piece.offset));
                return Err(not_sent);
            }
        }
        Ok(())
    }

    fn append_message(&mut self, posted: Posted, bytes: &[u8]) -> Result<(), NotSent> {
        let (cost, left) = (
            self.appender.cost(bytes.len() as u32),
            self.appender.credits(),
        );
        if cost > left {
            return Err(NotSent::NoCredit { cost, left });
        }
        let entries = self.sent.len();
        if entries >= self.limits.entries_max {
            return Err(NotSent::Full { entries });
        }
        let device = self.endpoint.port().device();
        let Some(local) = self.source.place(&**device, bytes) else {
            return Err(NotSent::Full { entries });
        };
        // The credits suffice, so the end of the connection is the one reason left.
        self.appender.append(local).map_err(|_| NotSent::Ended)?;
        self.source.keep(local);
        self.sent.push(posted);
        Ok(())
    }

    /// Sends all entries that were taken with one doorbell, and makes them durable as the plan says.
    ///
    /// # Errors
    /// [`NotSent::Refused`]: the device took nothing; [`NotSent::Ended`].
    pub fn flush(&mut self) -> Result<(), NotSent> {
        self.appender.flush().map_err(|refused| match refused {
            NotAppended::Refused(error) => NotSent::Refused(error),
            _ => NotSent::Ended,
        })?;
        self.sent.note_posted();
        self.hear();
        Ok(())
    }

    /// Gives a stream up: the backup has left the shard, or joined it again. Appended entries of the stream pass
    /// without a report, and the link takes no further ones. Other streams go on. The link also gives up a stream that
    /// the backup reports as closed.
    pub fn give_up(&mut self, stream: StreamName) {
        let standing = Standing::Closed;
        self.sent.note(Told { stream, standing });
        self.answer();
    }

    /// Waits for the next report. Dropping the future loses nothing.
    ///
    /// # Errors
    /// [`LinkEnded`], after all reports.
    pub async fn report(&mut self) -> Result<Report, LinkEnded> {
        let inbox = self.endpoint.inbox().clone();
        let mut activity = Box::pin(inbox.activity());
        poll_fn(|context| {
            loop {
                if let Some(heard) = self.heard.take() {
                    return Poll::Ready(heard);
                }
                self.hear();
                if let Poll::Ready(report) = self.poll_report(context) {
                    return Poll::Ready(report);
                }
                if activity.as_mut().poll(context).is_pending() {
                    return Poll::Pending;
                }
                activity = Box::pin(inbox.activity());
            }
        })
        .await
    }

    /// The next report, if there is one at this moment.
    ///
    /// # Errors
    /// [`LinkEnded`], after all reports.
    pub fn take_report(&mut self) -> Result<Option<Report>, LinkEnded> {
        if let Some(heard) = self.heard.take() {
            return heard.map(Some);
        }
        self.hear();
        match self.poll_report(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(report) => report.map(Some),
            Poll::Pending => Ok(None),
        }
    }

    /// Whether the owner has something to take: a report, the end, or a notice, which may bring credits. If there is
    /// nothing, the next one wakes `context`.
    pub fn poll_news(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.heard.is_none()
            && let Poll::Ready(report) = self.poll_report(context)
        {
            self.heard = Some(report);
        }
        match self.heard {
            Some(_) => Poll::Ready(()),
            None => self.listener.poll_activity(context),
        }
    }

    /// Sends the entries that were taken, and waits for the credits for an entry of `size` bytes, or for a piece of it,
    /// for `patience_ns` at most. Entries that were paid for and not sent would hold up the credits for this entry.
    ///
    /// # Errors
    /// [`NoCreditInTime`]. After the end of the connection the call succeeds, and the next append returns the error.
    pub async fn credited(
        &mut self,
        runtime: &Rc<dyn Runtime>,
        size: u32,
        patience_ns: Nanoseconds,
    ) -> Result<(), NoCreditInTime> {
        // Entries that the device refuses wait for the next flush, and the wait runs out of time.
        let _ = self.flush();
        let inbox = self.endpoint.inbox().clone();
        let size = size.min(self.limits.pieces.message_size_max());
        let granted = runtime.within(patience_ns, async {
            loop {
                self.hear();
                if self.trouble.is_some() || self.appender.cost(size) <= self.appender.credits() {
                    return;
                }
                inbox.activity().await;
            }
        });
        granted.await.map_err(|_elapsed| NoCreditInTime {
            size,
            left: self.appender.credits(),
            waited_ns: patience_ns,
        })
    }

    /// Takes all notices, and the end of the connection.
    fn hear(&mut self) {
        while self.trouble.is_none() {
            match self.take_notice() {
                Ok(true) => {}
                Ok(false) => break,
                Err(trouble) => {
                    // Answers come first: an appender that has failed hears none.
                    self.answer();
                    self.appender.fail(&trouble.to_string());
                    self.trouble = Some(trouble);
                }
            }
        }
        self.answer();
    }

    /// Takes a notice, if one has come.
    fn take_notice(&mut self) -> Result<bool, Trouble> {
        let Some((notice, credits)) = self.ears.take(self.endpoint.inbox())? else {
            return Ok(false);
        };
        self.appender.add_credits(credits);
        self.sent.note_all(notice.told)?;
        Ok(true)
    }

    /// Tells the appender up to which entry answers cover everything.
    fn answer(&mut self) {
        if let Some(number) = self.sent.take_covered()
            && let Err(wrong) = self.appender.answered(number)
        {
            self.trouble
                .get_or_insert(Trouble::Appends(wrong.to_string()));
        }
    }

    fn poll_report(&mut self, context: &mut Context<'_>) -> Poll<Result<Report, LinkEnded>> {
        loop {
            let (_number, persisted) = match ready!(self.appender.poll_persisted(context)) {
                Ok(concluded) => concluded,
                Err(failure) => return Poll::Ready(Err(self.ended(failure))),
            };
            let Posted {
                stream,
                version,
                kind,
                is_whole,
            } = self.sent.pop();
            self.source.free_oldest();
            // An entry of a stream that was given up gets no report: the entry passes so that entries after it need
            // not wait.
            if is_whole && !self.sent.is_closed(stream) {
                return Poll::Ready(Ok(Report {
                    connection: self.connection,
                    stream,
                    version,
                    kind,
                    persisted,
                }));
            }
        }
    }

    fn ended(&mut self, failure: AppendFailure) -> LinkEnded {
        let AppendFailure { standing, cause } = failure;
        let trouble = self.trouble.get_or_insert(Trouble::Appends(cause)).clone();
        let mut unknown = self.sent.rest();
        let sent = standing.unknown.end() + 1 - standing.unknown.start();
        let never_sent = unknown.split_off(sent as usize);
        LinkEnded {
            connection: self.connection,
            trouble,
            unknown,
            never_sent,
        }
    }
}
