//! Primaries and their clients.

use rand::RngExt as _;
use stonecast_replication::{Connection, LeaseSays, Point, Report, Settled};

use crate::clients::{Call, Told, Wish};
use crate::memory::{Cell, append_key};
use crate::node::any;
use crate::outcome::{Claim, Step};
use crate::state::{Word, Write};
use crate::world::{SHARDS, World, name};

impl World {
    /// Lets a client call the primary of the configuration, or an earlier one, or repeat its call.
    pub(crate) fn call(&mut self) {
        let client = any(&mut self.random, self.clients.count());
        let call = match self.clients.open(client) {
            Some(_) if self.chance(200) => self.clients.repeat(client),
            Some(_) => return,
            None => self.new_call(client),
        };
        let group = self.configuration.group(call.shard);
        let (primary, term) = (group.primary, group.term);
        let late = (0..self.nodes.len()).find(|&node| {
            self.nodes[node]
                .leads(call.shard)
                .is_some_and(|led| led < term)
        });
        // A key whose write an earlier primary leaves unfinished gets no more answers, so clients mostly send reads to
        // an earlier primary.
        let often = if call.wish == Wish::Get { 0.6 } else { 0.1 };
        let asked = match self.random.random_bool(often) {
            true => late.unwrap_or(primary),
            false => primary,
        };
        if self.nodes[asked].runs() {
            self.decide(asked, call);
        }
    }

    fn new_call(&mut self, client: usize) -> Call {
        self.outcome.counts.calls += 1;
        let shard = any(&mut self.random, SHARDS as usize) as u32;
        let key = any(&mut self.random, self.setup.keys.into()) as u8;
        let wishes = [Wish::Get, Wish::Put, Wish::Add, Wish::Delete];
        let call = Call {
            number: self.outcome.counts.calls,
            client: client as u32,
            shard,
            key,
            wish: wishes[any(&mut self.random, wishes.len())],
            attempt: 0,
            told_before: self.oracle.told(shard, key),
        };
        self.clients.begin(call);
        self.outcome.show(Step::Called(call));
        call
    }

    /// Lets a node that leads the shard decide the call: the node stamps the write or keeps the answer.
    fn decide(&mut self, node: usize, call: Call) {
        let gap = self.random.random_range(1..3);
        let counter = self.nodes[node].counter;
        let Some(leader) = self.nodes[node].leader(call.shard) else {
            return;
        };
        if let Some(&done) = leader.decided.done.get(&call.number) {
            let version = Some(done.point.version);
            return leader.primary.refuse(version, (call, Told::Done(done)));
        }
        let word = leader.decided.words.get(&call.key).copied();
        let found = word.filter(|word| word.write.present);
        let writes = match call.wish {
            Wish::Get => false,
            Wish::Put => true,
            Wish::Add => found.is_none(),
            Wish::Delete => found.is_some(),
        };
        if !writes {
            // A store has no word for a key that is absent.
            let version = found.map(|word| word.point.version);
            return leader.primary.refuse(version, (call, Told::Saw(word)));
        }
        let point = Point {
            term: leader.primary.term(),
            version: leader.primary.last().max(counter) + gap,
        };
        let write = Write {
            number: call.number,
            key: call.key,
            present: call.wish != Wish::Delete,
        };
        let word = Word { point, write };
        let Ok(entry) = leader
            .primary
            .stamp(point.version, (call, Told::Done(word)))
        else {
            return;
        };
        leader.decided.apply(word);
        let stamping = &mut self.nodes[node];
        stamping.counter = point.version;
        let cell = Cell::new(&append_key(node), entry, Some(write));
        stamping.memory.land(cell);
        self.outcome.claim(Claim {
            shard: call.shard,
            term: point.term.0,
            node,
        });
    }

    /// Persists the node's own entries, and reports them to its primary.
    pub(crate) fn persist_here(&mut self, node: usize, shard: u32) {
        let Some(leader) = self.nodes[node].leader(shard) else {
            return;
        };
        let me = name(node);
        for entry in leader.primary.take_unsent(&me, Connection::OWN) {
            let report = Report::of(Connection::OWN, &entry);
            let heard = leader.primary.persisted(&me, report);
            heard.expect("a log has one order");
        }
        self.nodes[node].memory.persist_all();
    }

    pub(crate) fn settle(&mut self, node: usize, shard: u32) {
        let leases = &self.grants.leases;
        let Some(leader) = self.nodes[node].leader(shard) else {
            return;
        };
        let term = leader.primary.term();
        let lease = match leases.contains(&(shard, term)) {
            true => LeaseSays::Holds,
            false if !leader.has_been_granted => LeaseSays::NotYet,
            false => LeaseSays::Over,
        };
        let Some(settled) = leader.primary.settle(lease) else {
            self.nodes[node].held(shard).step_down();
            return self.show(format!("n{node} resigns shard {shard} in term {term}"));
        };
        for one in settled {
            self.oracle.tells(shard, term);
            match one {
                Settled::Written((call, told)) => {
                    let Told::Done(word) = told else {
                        unreachable!("a write is done");
                    };
                    self.nodes[node].held(shard).state.apply(word);
                    self.assert_copies(node, shard, word);
                    self.oracle.written(word);
                    self.answer(call, told);
                }
                Settled::Refused((call, told)) => self.answer(call, told),
            }
        }
    }

    fn answer(&mut self, call: Call, told: Told) {
        if self.clients.take_answer(&call, told) {
            self.outcome.counts.answers += 1;
            self.outcome.show(Step::Answered(call, told));
            self.oracle.answered(&call, told);
        }
    }

    /// Asserts that a write that is done is on at least the fewest copies, all named by the configuration that the
    /// primary knows.
    fn assert_copies(&self, node: usize, shard: u32, word: Word) {
        let named = self.nodes[node].known.group(shard).in_sync.iter();
        let found = named.filter(|&&copy| self.nodes[copy].has_durably(shard, word));
        let found = found.count();
        assert!(
            found >= self.setup.min_copies,
            "{word:?} is done on {found} copies"
        );
    }
}
