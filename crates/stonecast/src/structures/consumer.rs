//! The consumer of a queue, which takes jobs and ends them, in a lock domain of its own.

use std::collections::VecDeque;

use stonecast_structures::Verb;
use stonecast_structures::shapes::Structure;
use stonecast_structures::shapes::sequence::{self, Numbered};

use super::error::Error;
use super::reader::Reader;
use super::session::Session;
use super::types::{Cursor, Queue, Value};
use super::update::{Update, decoded};
use super::writer::Writer;

/// A job that a consumer has taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakenJob<V> {
    /// The place of the job in its queue: the first job that was ever put in has the number 0.
    pub number: u64,
    /// The job.
    pub value: V,
}

/// The consumer of a queue. [`Consumer::take`] goes on behind a job, and [`Consumer::done`] ends it. Between the two
/// calls, the *cursor*, a structure in a lock domain of its own, records that the job is taken: if the consumer dies,
/// the next consumer finds the job among the jobs that are taken and not done ([`Consumer::unfinished`]). So each job
/// is ended once, and none is lost; a job whose end was not acknowledged is given again.
///
/// The writer of the queue and each consumer have a lease of their own, and never wait for each other. Jobs stay in the
/// queue until its writer removes the jobs that every cursor has passed ([`Writer::remove_below`], with
/// [`Reader::floor`]). Several cursors of one queue are independent: each gets every job.
///
/// ```
/// use stonecast::structures::{self, Cursor, Queue, Server};
///
/// # let folder = tempfile::tempdir()?;
/// # let server = Server::builder(folder.path().join("pool"))
/// #     .durability(stonecast::Durability::Process).capacity(32 << 20).serve()?;
/// let connection = structures::connect(&server.address().to_string())?;
/// connection.run(async |session| {
///     let mut jobs = session.writer::<Queue<String>>("jobs").await?;
///     jobs.push(&"paint the door".to_owned()).await?;
///     jobs.push(&"sweep the floor".to_owned()).await?;
///
///     // Perhaps in another process.
///     let mut worker = session.consumer::<String>("jobs", "worker").await?;
///     let job = worker.take().await?.expect("there is a job");
///     assert_eq!((job.number, &*job.value), (0, "paint the door"));
///     worker.release().await?; // it gives up in the middle
///
///     let mut worker = session.consumer::<String>("jobs", "worker").await?;
///     for job in worker.unfinished().await? {
///         assert_eq!(job.value, "paint the door");
///         assert!(worker.done(job.number).await?);
///     }
///     let job = worker.take().await?.expect("there is another job");
///     assert_eq!(job.value, "sweep the floor");
///     assert!(worker.take().await?.is_none());
///
///     let mut cursor = session.reader::<Cursor<String>>("worker").await?;
///     assert_eq!(cursor.floor().await?, 1); // the second job is not done
///     assert_eq!(jobs.remove_below(cursor.floor().await?).await?, 1);
///     worker.done(job.number).await?;
///     assert_eq!(jobs.remove_below(cursor.floor().await?).await?, 1);
///     worker.renew().await?; // a consumer without jobs keeps its lease
///     Ok::<(), structures::Error>(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Consumer<V: Value> {
    cursor: Writer<Cursor<V>>,
    queue: Reader<Queue<V>>,
    /// The number of the next job.
    next: u64,
    /// Numbers of jobs that are taken and not done.
    taken: VecDeque<u64>,
}

/// The number that names a job in the record of its cursor. 0 is no token.
fn token_of(number: u64) -> u64 {
    number.wrapping_add(1)
}

impl Session {
    /// Becomes the consumer of the queue `queue` at the cursor `cursor`, which is made before the first job of the
    /// queue if it does not exist. The cursor lies in another lock domain than the queue, since the writer of the queue
    /// holds the queue's lock domain.
    ///
    /// # Errors
    ///
    /// [`Error::Held`]: another front-end is the consumer, or its lease is being ended at this moment.
    /// [`Error::NotFound`]: there is no such queue. [`Error::OtherType`], [`Error::Name`], [`Error::NoRoom`].
    pub async fn consumer<V: Value>(
        &self,
        queue: &str,
        cursor: &str,
    ) -> Result<Consumer<V>, Error> {
        let queue = self.reader::<Queue<V>>(queue).await?;
        let mut cursor = self.writer::<Cursor<V>>(cursor).await?;
        let state = cursor.read_with(|structure| match structure {
            Structure::Cursor(cursor) => Some(cursor.read()),
            _ => None,
        });
        let state = state.await?;
        Ok(Consumer {
            cursor,
            queue,
            next: state.next,
            taken: state.taken.iter().map(|(_, number)| *number).collect(),
        })
    }
}

impl<V: Value> Consumer<V> {
    /// Takes the next job; `None`: the queue has no further job. When the call returns, the job is durably taken.
    ///
    /// # Errors
    ///
    /// [`Error::Unfinished`]: too many jobs are taken and not done. [`Error::Removed`]: the writer of the queue has
    /// removed the job. Of these, nothing was done. [`Error::TenureOver`], [`Error::Gone`]: [`Error::effect`] tells
    /// whether the job was taken; the next consumer finds the job in any case. [`Error::Decode`].
    pub async fn take(&mut self) -> Result<Option<TakenJob<V>>, Error> {
        let number = self.next;
        let value = match self.queue.item(number).await? {
            Numbered::Later => return Ok(None),
            Numbered::Gone => return Err(self.removed(number)),
            Numbered::Value(bytes) => decoded::<Queue<V>>(self.queue.name(), &bytes)?,
        };
        let take = Update {
            verb: Verb::Take,
            key: sequence::Cursor::take_key(token_of(number), number),
            value: Vec::new(),
        };
        self.cursor.update_now(&take, None).await?;
        self.next += 1;
        self.taken.push_back(number);
        Ok(Some(TakenJob { number, value }))
    }

    /// Ends a job. Returns whether the job was taken and not done. The end is durable when the call returns.
    ///
    /// # Errors
    ///
    /// [`Error::TenureOver`], [`Error::Gone`]: [`Error::effect`] tells whether the job was ended.
    pub async fn done(&mut self, number: u64) -> Result<bool, Error> {
        let Some(place) = self.taken.iter().position(|taken| *taken == number) else {
            return Ok(false);
        };
        let done = Update {
            verb: Verb::Done,
            key: sequence::Cursor::done_key(token_of(number)),
            value: Vec::new(),
        };
        self.cursor.update_now(&done, None).await?;
        self.taken.remove(place);
        Ok(true)
    }

    /// The jobs that are taken and not done, by this consumer or by earlier ones, in the order in which they were
    /// taken.
    ///
    /// # Errors
    ///
    /// [`Error::Removed`], [`Error::Gone`], [`Error::Damaged`], [`Error::Decode`].
    pub async fn unfinished(&mut self) -> Result<Vec<TakenJob<V>>, Error> {
        let mut jobs = Vec::with_capacity(self.taken.len());
        for number in self.taken.clone() {
            let Numbered::Value(bytes) = self.queue.item(number).await? else {
                return Err(self.removed(number));
            };
            let value = decoded::<Queue<V>>(self.queue.name(), &bytes)?;
            jobs.push(TakenJob { number, value });
        }
        Ok(jobs)
    }

    fn removed(&self, number: u64) -> Error {
        Error::Removed {
            name: self.queue.name().to_owned(),
            number,
        }
    }

    /// Tells the back-end that this consumer lives.
    ///
    /// # Errors
    ///
    /// [`Error::TenureOver`], [`Error::Gone`].
    pub async fn renew(&self) -> Result<(), Error> {
        self.cursor.renew().await
    }

    /// Gives the lease back. Jobs that are taken and not done remain so.
    ///
    /// # Errors
    ///
    /// The errors of [`Writer::release`].
    pub async fn release(self) -> Result<(), Error> {
        self.cursor.release().await
    }
}

impl<V: Value> Reader<Cursor<V>> {
    /// The number of the first job that is not done: all jobs with lower numbers are done.
    ///
    /// # Errors
    ///
    /// The errors of [`Reader::len`].
    pub async fn floor(&mut self) -> Result<u64, Error> {
        let state = self.read_with(|structure| match structure {
            Structure::Cursor(cursor) => Some(cursor.read()),
            _ => None,
        });
        Ok(state.await?.floor())
    }
}

impl<V: Value> Reader<Queue<V>> {
    /// The item with a number.
    async fn item(&mut self, number: u64) -> Result<Numbered, Error> {
        let item = self.read_with(|structure| match structure {
            Structure::Queue(queue) => Some(queue.item(number)),
            _ => None,
        });
        item.await
    }
}

impl<V: Value> Writer<Queue<V>> {
    /// Removes the values with numbers below `floor`, durable and visible when the call returns. Returns how many.
    ///
    /// # Errors
    ///
    /// The errors of [`Writer::pop`].
    pub async fn remove_below(&mut self, floor: u64) -> Result<u64, Error> {
        let numbers = self.read_with(|structure| match structure {
            Structure::Queue(queue) => Some(queue.numbers()),
            _ => None,
        });
        let numbers = numbers.await?;
        let count = floor.min(numbers.end).saturating_sub(numbers.start);
        for _ in 0..count {
            let _ticket = self.stage_pop().await?;
        }
        self.publish().await?;
        Ok(count)
    }
}
