//! The passive back-end: accepts front-ends, looks for transactions in the memory logs, and applies them.
//!
//! The back-end gets no message about a transaction: it polls the commit words.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use stonecast_base::{LINE_SIZE, Nanoseconds, Span};
use stonecast_fabric::{
    Access, ConnectionEvent, ConnectionRequest, MemoryRegion, Port, QueuePair, Runtime,
};
use stonecast_media::PersistentRegion;
use stonecast_persist::execute::Commit;
use stonecast_session::{Queues, Side, accept, close};

use super::blocks::Blocks;
use super::layout::{AsymLayout, Word};
use super::log::{Ring, Value, read_operations, read_transaction};
use crate::PublishedError;
use crate::link::GREETING;

/// The pause between two looks at all commit words, where nothing else is asked for.
const LOOK_NS: Nanoseconds = 2_000;
/// Looks at commit words between two looks for connections.
const LOOKS: u32 = 64;

/// A back-end.
pub struct AsymBackEnd {
    memory: Rc<dyn PersistentRegion>,
    commit: Commit,
    port: Rc<Port>,
    runtime: Rc<dyn Runtime>,
    layout: AsymLayout,
    region: MemoryRegion,
    front_ends: RefCell<Vec<QueuePair>>,
    blocks: RefCell<Blocks>,
    look_ns: Nanoseconds,
    keeps_blocks: bool,
    transactions: Cell<u64>,
}

impl AsymBackEnd {
    /// A back-end on memory with this layout. Nothing is recovered.
    ///
    /// # Errors
    /// [`PublishedError::Full`]: the memory is shorter than the layout.
    pub fn open(
        memory: Rc<dyn PersistentRegion>,
        commit: Commit,
        (port, runtime): (Rc<Port>, Rc<dyn Runtime>),
        layout: AsymLayout,
    ) -> Result<Self, PublishedError> {
        if memory.size() < layout.size() {
            return Err(PublishedError::Full);
        }
        let access = Access::REMOTE_READ.and(Access::REMOTE_WRITE);
        let access = access.and(Access::REMOTE_ATOMIC);
        let region = port.device().register_persistent(memory.clone(), access)?;
        Ok(Self {
            memory,
            commit,
            port,
            runtime,
            layout,
            region,
            front_ends: RefCell::default(),
            blocks: RefCell::new(Blocks::new(layout)),
            look_ns: LOOK_NS,
            keeps_blocks: true,
            transactions: Cell::default(),
        })
    }

    /// A back-end that pauses for so long between two looks at what front-ends have written.
    #[must_use]
    pub fn with_looks(self, look_ns: Nanoseconds) -> Self {
        Self { look_ns, ..self }
    }

    /// A back-end that answers requests for blocks before its bitmap is durable.
    #[must_use]
    pub fn with_volatile_blocks(self) -> Self {
        Self {
            keeps_blocks: false,
            ..self
        }
    }

    /// Transactions that were applied.
    pub fn transactions(&self) -> u64 {
        self.transactions.get()
    }

    /// Serves until `stop` says so.
    ///
    /// # Errors
    /// [`PublishedError`].
    pub async fn run(&self, stop: &dyn Fn() -> bool) -> Result<(), PublishedError> {
        while !stop() {
            self.take_events();
            for _ in 0..LOOKS {
                let mut has_worked = false;
                for instance in 0..self.layout.instances {
                    has_worked |= self.replay(instance).await?;
                    has_worked |= self.give_blocks(instance).await?;
                }
                if !has_worked {
                    break;
                }
            }
            self.runtime.sleep(self.look_ns).await;
        }
        Ok(())
    }

    fn take_events(&self) {
        while let Some(event) = self.port.take_event() {
            match event {
                ConnectionEvent::Request {
                    request,
                    private_data,
                    ..
                } => self.accept(request, &private_data),
                ConnectionEvent::Disconnected { qp, .. } => {
                    self.front_ends.borrow_mut().retain(|known| *known != qp);
                    close(&self.port, qp, []);
                }
                ConnectionEvent::Established { .. } | ConnectionEvent::Rejected { .. } => {}
            }
        }
    }

    fn accept(&self, request: ConnectionRequest, hello: &[u8]) {
        if let Err(mismatch) = GREETING.hear(Side::Client, hello) {
            // A front-end that vanished meanwhile needs no answer.
            let _ = self.port.device().reject(request, &mismatch.to_string());
            return;
        }
        let mut words = self.layout.to_words().to_vec();
        words.extend([self.region.address, self.region.rkey.0.into()]);
        let words: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let accepted = accept(&self.port, request, |making| {
            making.queue_pair(Queues {
                send_capacity: 1,
                receive_capacity: 1,
                shared_receive_queue: None,
                windows: false,
                rnr_retry_count: 1000,
                rnr_retry_delay_ns: 100_000,
            })?;
            Ok((GREETING.say(&words), ()))
        });
        // A front-end that could not be accepted has been told the reason.
        if let Ok((qp, ())) = accepted {
            self.front_ends.borrow_mut().push(qp);
        }
    }

    fn load(&self, instance: u32, word: Word) -> u64 {
        self.memory.load(self.layout.word(instance, word))
    }

    /// Stores a word, and returns its line.
    fn store(&self, instance: u32, word: Word, value: u64) -> Span {
        let place = self.layout.word(instance, word);
        self.memory.store(place, value);
        Span::new(place, LINE_SIZE as u64)
    }

    fn memory_ring(&self, instance: u32) -> Ring {
        Ring {
            start: self.layout.memory_log(instance),
            size: self.layout.log_size,
        }
    }

    /// Applies the transactions in front of the commit word. Returns whether there were any.
    async fn replay(&self, instance: u32) -> Result<bool, PublishedError> {
        let tail = self.load(instance, Word::Tail);
        let mut at = self.load(instance, Word::Applied);
        if at >= tail {
            return Ok(false);
        }
        while at < tail {
            let ring = self.memory_ring(instance);
            let transaction = read_transaction(&*self.memory, ring, at);
            let Some((_, end)) = transaction else {
                // The commit word has overtaken its transaction.
                return Ok(false);
            };
            at = self.apply_at(instance, at).await?.unwrap_or(end);
        }
        Ok(true)
    }

    /// Applies the transaction at a position. Returns the position behind it; `None`: no transaction there checks.
    async fn apply_at(&self, instance: u32, at: u64) -> Result<Option<u64>, PublishedError> {
        let ring = self.memory_ring(instance);
        let Some((writes, end)) = read_transaction(&*self.memory, ring, at) else {
            return Ok(None);
        };
        let number = self.load(instance, Word::Sequence);
        let mut dirty = vec![self.store(instance, Word::Sequence, number + 1)];
        for write in &writes {
            let data = match &write.value {
                Value::Inline(data) => data.clone(),
                Value::Pointer(logged) => {
                    let mut data = vec![0; logged.size as usize];
                    self.memory.read(logged.offset, &mut data);
                    data
                }
            };
            self.memory.write(write.address, &data);
            dirty.push(Span::new(write.address, data.len() as u64).widen(LINE_SIZE as u64));
            // Others see each store when it is done, and not all at once.
            pause().await;
        }
        dirty.push(self.store(instance, Word::Sequence, number + 2));
        self.persist(&dirty).await?;
        let line = self.store(instance, Word::Applied, end);
        self.persist(&[line]).await?;
        self.transactions.set(self.transactions.get() + 1);
        Ok(Some(end))
    }

    async fn persist(&self, spans: &[Span]) -> Result<(), PublishedError> {
        drop(self.commit.persist(&*self.memory, spans).await?);
        Ok(())
    }

    async fn give_blocks(&self, instance: u32) -> Result<bool, PublishedError> {
        let dirty = self.blocks.borrow_mut().serve(&*self.memory, instance);
        let Some(dirty) = dirty else {
            return Ok(false);
        };
        if self.keeps_blocks {
            self.persist(&dirty).await?;
        }
        self.blocks.borrow_mut().answer(&*self.memory, instance);
        Ok(true)
    }

    /// Recovers an instance after a crash: applies the transactions in front of the commit word, and the one behind
    /// it if its checksum is right, since a
    /// crash may have taken the commit word alone. Returns the number of transactions, and the operations whose
    /// memory logs never came.
    ///
    /// # Errors
    /// [`PublishedError`].
    pub async fn recover(&self, instance: u32) -> Result<(u64, Vec<Vec<u8>>), PublishedError> {
        let (mut at, mut count) = (self.load(instance, Word::Applied), 0);
        let tail = self.load(instance, Word::Tail);
        loop {
            let is_last = at >= tail;
            match self.apply_at(instance, at).await? {
                None => break,
                Some(behind) => (at, count) = (behind, count + 1),
            }
            if is_last {
                break;
            }
        }
        let covered = self.load(instance, Word::Covered);
        let ring = Ring {
            start: self.layout.operation_log(instance),
            size: self.layout.log_size,
        };
        Ok((count, read_operations(&*self.memory, ring, covered)))
    }

    /// Ends the lock of a front-end that is taken for dead: if the lock-ahead log's last record names one, the lock
    /// is reset.
    ///
    /// # Errors
    /// [`PublishedError`].
    pub async fn free_lock_of_the_dead(&self, instance: u32) -> Result<bool, PublishedError> {
        let records = self.load(instance, Word::LockRecords);
        let Some(last) = records.checked_sub(1) else {
            return Ok(false);
        };
        let owner = self.memory.load(self.layout.lock_record(instance, last));
        if owner == 0 {
            return Ok(false);
        }
        let line = self.store(instance, Word::Lock, 0);
        self.persist(&[line]).await?;
        Ok(true)
    }
}

/// Lets other parties act.
async fn pause() {
    let mut has_paused = false;
    poll_fn(|context| {
        if has_paused {
            return Poll::Ready(());
        }
        has_paused = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
