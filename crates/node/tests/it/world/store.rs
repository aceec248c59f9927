//! The minimal store: a log of records, and a map for each shard.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use stonecast_backup::{Lent, SharedLedger};
use stonecast_cluster::{Pending, Term};
use stonecast_fabric::Runtime;
use stonecast_log::{Heritage, SegmentState};
use stonecast_node::{Ended, Left, Node, NotDurable, NotServed, Page, Store};
use stonecast_replication::{Entry, Lineage, Point, Settled};

use super::disk::{Change, Disk, Record};
use super::oracle::{Answer, Oracle};
use super::pages::{self, Ballast, Item};

/// Time that a commit takes.
const COMMIT_NS: u64 = 3_000;
/// Pause of the pipeline between two batches.
const BATCH_NS: u64 = 5_000;

/// A call of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    pub shard: u32,
    pub key: u8,
    /// Whether the write deletes the key.
    pub deletes: bool,
    /// Names a write in all of its attempts; `None`: a read.
    pub number: Option<u64>,
    /// Names the attempt.
    pub attempt: u64,
}

/// A write in a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word {
    pub point: Point,
    pub number: u64,
}

/// The state of a shard.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Map {
    pub words: BTreeMap<u8, Word>,
    pub done: BTreeMap<u64, Point>,
}

impl Map {
    /// A key that was deleted has no word.
    fn apply(&mut self, (key, deletes): (u8, bool), word: Word) {
        self.done.insert(word.number, word.point);
        match deletes {
            true => _ = self.words.remove(&key),
            false => _ = self.words.insert(key, word),
        }
    }
}

/// The minimal store.
pub struct TestStore {
    pub name: usize,
    disk: Disk,
    ledger: SharedLedger,
    runtime: Rc<dyn Runtime>,
    oracle: Rc<RefCell<Oracle>>,
    /// Bytes of live data of each shard that no key has.
    ballast: Ballast,
    parts: RefCell<Parts>,
}

#[derive(Default)]
struct Parts {
    /// The published and digested state.
    maps: BTreeMap<u32, Map>,
    /// The state with everything that is stamped.
    decided: BTreeMap<u32, Map>,
    calls: Vec<Call>,
    counter: u64,
    blank: Vec<u32>,
}

/// A call that waits for copies.
pub struct Waiting {
    call: Call,
    answer: Answer,
}

/// Whether the records of a key are longer than three messages.
pub fn is_long(key: u8) -> bool {
    key % 8 == 3
}

/// The body of a write of a key, or of its delete.
pub fn body_of((key, deletes): (u8, bool), number: u64) -> Vec<u8> {
    let mut body = vec![key, deletes.into()];
    body.extend(number.to_le_bytes());
    let size = if is_long(key) { 2950 } else { 24 };
    body.resize(size + (number % 5) as usize * 10, number as u8);
    body
}

/// The key, whether it is deleted, and the number of the write.
fn read(body: &[u8]) -> ((u8, bool), u64) {
    let number = body[2..].first_chunk().unwrap();
    ((body[0], body[1] == 1), u64::from_le_bytes(*number))
}

/// Tells the ledger of the intake a floor that is durable on the disk. The disk has the rest of the history.
fn tell_floor(ledger: &SharedLedger, shard: u32, history: &Lineage) {
    if history.floor == Point::default() && ledger.lineage(shard).is_none() {
        // No entry is old. A row that says so takes room: segments are small here.
        return;
    }
    let told = Lineage {
        term: history.floor.term,
        cuts: BTreeMap::new(),
        ..*history
    };
    ledger.keep(shard, told, 0);
}

impl TestStore {
    /// The store on the content of `disk`, and the parts of it that the node needs.
    pub fn open(
        name: usize,
        (disk, ledger): (&Disk, SharedLedger),
        runtime: Rc<dyn Runtime>,
        oracle: Rc<RefCell<Oracle>>,
        (blank, ballast): (Vec<u32>, Ballast),
    ) -> (Self, BTreeMap<u32, Left>) {
        let content = disk.content();
        let mut parts = Parts {
            blank,
            ..Parts::default()
        };
        let history = |shard: &u32| content.histories.get(shard);
        let mut left: BTreeMap<u32, Left> = BTreeMap::new();
        for (&shard, history) in &content.histories {
            // The ledger that segments carry may be older than the disk.
            tell_floor(&ledger, shard, history);
            let (history, own) = (history.clone(), Vec::new());
            left.insert(shard, Left { history, own });
        }
        for (&(shard, point), record) in &content.records {
            parts.counter = point.version.max(parts.counter);
            let Some(history) = history(&shard) else {
                continue;
            };
            if record.is_own && point > history.floor {
                let own = (record.entry, record.body.clone());
                left.get_mut(&shard).unwrap().own.push(own);
            } else {
                let (key, number) = read(&record.body);
                let map = parts.maps.entry(shard).or_default();
                map.apply(key, Word { point, number });
            }
        }
        for (&(shard, number), &point) in &content.outcomes {
            let map = parts.maps.entry(shard).or_default();
            map.done.insert(number, point);
        }
        let store = Self {
            name,
            disk: disk.clone(),
            ledger,
            runtime,
            oracle,
            ballast,
            parts: RefCell::new(parts),
        };
        (store, left)
    }

    /// Takes a call, to be decided with the next batch.
    pub fn call(&self, call: Call) {
        self.parts.borrow_mut().calls.push(call);
    }

    /// A call whose answer no caller awaits.
    pub fn nobody(&self) -> Waiting {
        let call = Call {
            shard: 0,
            key: 0,
            deletes: false,
            number: None,
            attempt: 0,
        };
        let answer = Answer::Saw(None);
        Waiting { call, answer }
    }

    /// Segments that were never lent.
    pub fn blank(&self) -> usize {
        self.parts.borrow().blank.len()
    }

    /// The state of a shard that is published or digested here.
    pub fn map(&self, shard: u32) -> Map {
        let parts = self.parts.borrow();
        parts.maps.get(&shard).cloned().unwrap_or_default()
    }

    /// The pipeline: decides, stamps, commits beside the appends.
    pub async fn serve(self: Rc<Self>, node: Rc<Node<Self>>) {
        loop {
            let mut calls = std::mem::take(&mut self.parts.borrow_mut().calls);
            let taken = calls.iter().position(|&call| !self.decide(&node, call));
            let has_room = taken.is_none();
            calls.drain(..taken.unwrap_or(calls.len()));
            let batch = node.send();
            if self.disk.mark() > 0
                && let Err(failed) = self.commit().await
            {
                return node.fail(failed);
            }
            node.persisted_here(batch);
            self.parts.borrow_mut().calls.splice(..0, calls);
            match has_room {
                true => self.runtime.sleep(BATCH_NS).await,
                false => node.room().await,
            }
        }
    }

    /// Decides a call. Returns false if there is no room for its entry at this moment.
    fn decide(&self, node: &Node<Self>, call: Call) -> bool {
        let Call {
            shard, key, number, ..
        } = call;
        let parts = &mut *self.parts.borrow_mut();
        let Some(term) = node.serves(shard) else {
            return true;
        };
        let decided = parts.decided.get_mut(&shard).expect("it is served");
        let refused = |saw: Option<u64>, answer| {
            let _ = node.refuse(shard, saw, Waiting { call, answer });
            true
        };
        let Some(number) = number else {
            let word = decided.words.get(&key).copied();
            return refused(word.map(|word| word.point.version), Answer::Saw(word));
        };
        if let Some(&point) = decided.done.get(&number) {
            return refused(Some(point.version), Answer::Done(point));
        }
        let version = parts.counter + 1;
        let body = body_of((key, call.deletes), number);
        let answer = Answer::Done(Point { term, version });
        let entry = match node.stamp(shard, version, &body, Waiting { call, answer }) {
            Ok(entry) => entry,
            Err(refused) => return !matches!(refused, NotServed::NoRoom { .. }),
        };
        parts.counter = version;
        let point = entry.point();
        decided.apply((key, call.deletes), Word { point, number });
        self.disk.note(Change::Record(Record {
            entry,
            body,
            is_own: true,
        }));
        self.oracle.borrow_mut().stamped(self.name, call, point);
        true
    }
}

impl Store for TestStore {
    type Call = Waiting;

    fn digest(&self, entry: &Entry, body: &[u8]) {
        let (key, number) = read(body);
        let point = entry.point();
        let parts = &mut *self.parts.borrow_mut();
        let map = parts.maps.entry(entry.shard).or_default();
        map.apply(key, Word { point, number });
        self.disk.note(Change::Record(Record {
            entry: *entry,
            body: body.to_vec(),
            is_own: false,
        }));
    }

    fn keep(&self, shard: u32, history: &Lineage) {
        self.disk.note(Change::History(shard, history.clone()));
    }

    fn commit(&self) -> Pending<'_, Result<(), NotDurable>> {
        let mark = self.disk.mark();
        Box::pin(async move {
            self.runtime.sleep(COMMIT_NS + self.disk.delay_ns()).await;
            if self.disk.is_broken() {
                let reason = "the disk says no".to_owned();
                return Err(NotDurable { reason });
            }
            // Another commit may have taken a part of the changes meanwhile.
            for (shard, history) in self.disk.commit(mark.min(self.disk.mark())) {
                tell_floor(&self.ledger, shard, &history);
            }
            Ok(())
        })
    }

    fn serves(&self, shard: u32, term: Term, last: u64) {
        let parts = &mut *self.parts.borrow_mut();
        parts.counter = parts.counter.max(last);
        let map = parts.maps.entry(shard).or_default().clone();
        parts.decided.insert(shard, map);
        self.oracle.borrow_mut().serves(self.name, shard, term);
    }

    fn settled(&self, shard: u32, settled: Vec<Settled<Waiting>>) {
        for settled in settled {
            let (Settled::Written(waiting) | Settled::Refused(waiting)) = &settled;
            let Waiting { call, answer } = waiting;
            if let (Settled::Written(_), Answer::Done(point), Some(number)) =
                (&settled, answer, call.number)
            {
                let parts = &mut *self.parts.borrow_mut();
                let map = parts.maps.entry(shard).or_default();
                let point = *point;
                map.apply((call.key, call.deletes), Word { point, number });
            }
            self.oracle.borrow_mut().answered(call, answer);
        }
    }

    fn resigned(&self, shard: u32, _: Ended<Waiting>) {
        self.parts.borrow_mut().decided.remove(&shard);
    }

    fn dropped(&self, shard: u32) {
        self.parts.borrow_mut().maps.remove(&shard);
        self.disk.note(Change::Dropped(shard));
    }

    fn page(&self, shard: u32, from: u64, size: usize) -> Page {
        let parts = self.parts.borrow();
        let empty = Map::default();
        let map = parts.maps.get(&shard).unwrap_or(&empty);
        pages::page(map, from, (size, self.ballast))
    }

    fn absorb(&self, shard: u32, page: &[u8]) {
        let parts = &mut *self.parts.borrow_mut();
        let map = parts.maps.entry(shard).or_default();
        for item in pages::items(page) {
            match item {
                Item::Word(key, word) => {
                    map.words.insert(key, word);
                }
                Item::Outcome(number, point) => {
                    map.done.insert(number, point);
                }
            }
            self.disk.note(Change::Pulled(shard, item));
        }
    }

    fn lacks_room(&self) -> bool {
        false
    }

    fn lend(&self) -> Option<Lent> {
        let number = self.parts.borrow_mut().blank.pop()?;
        Some(Lent {
            number,
            before: None,
            heritage: Default::default(),
        })
    }

    /// The store keeps its records elsewhere, and never runs short of segments.
    fn ask_back(&self, _: usize) -> Option<Heritage> {
        None
    }

    fn take_back(&self, state: SegmentState) {
        panic!("segment {} came back unasked", state.number)
    }
}

/// Records that only one of two copies has.
pub fn differences(one: &Map, other: &Map) -> BTreeSet<u64> {
    let numbers = |map: &Map| map.done.keys().copied().collect::<BTreeSet<_>>();
    let (one, other) = (numbers(one), numbers(other));
    one.symmetric_difference(&other).copied().collect()
}
