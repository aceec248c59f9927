//! Random histories of keys with short lives: clocks drift as declared and are set, servers stand still, are killed,
//! and lose their power.
//!
//! ```text
//!   told     the server's time, as a client of its own asks for it; it goes on no slower than the declared drift
//!   states   for each key, what it may be: the last write, and one that a kill has cut short
//! ```
//!
//! A value that a path returns is one of the states, and its moment lies above the time that has certainly passed. A
//! key whose moment has passed, or that the server has called absent, is in no other state until it is written. Clients
//! call a key absent a little too early: by the length of a question and some milliseconds.

use std::cmp::max;
use std::pin::pin;

use futures_util::future::select;
use rand::RngExt as _;
use rand::seq::IndexedRandom as _;
use stonecast_base::{Random, random_from_seed};
use stonecast_kv::{
    Applied, Batch, Client, ClientPolicy, Condition, Expectation, Expiry, PutRules, Values, Written,
};

use super::world::{DRIFT_PPM, End, MS, SECOND, Stage};
use crate::world::key;

const SEEDS: u64 = 60;
const STEPS: u64 = 60;
const KEYS: u64 = 12;
const DAY: u64 = 86_400 * SECOND;

/// A value with its moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Item {
    number: u64,
    expires: Option<Expiry>,
}

/// The keys and the time, as far as the answers tell.
struct Model {
    states: Vec<Vec<Option<Item>>>,
    /// The server's time was at least `told_ms` at `told_at`; `None`: another server has started since.
    told_ms: u64,
    told_at: Option<u64>,
    numbers: u64,
    counts: Counts,
}

#[derive(Debug, Default)]
struct Counts {
    /// Values that were returned, those among them with a moment, and those whose moment had passed.
    values: u64,
    with_moment: u64,
    expired: u64,
    /// Absent keys whose last write had a moment.
    absent: u64,
}

impl Model {
    fn new() -> Self {
        Self {
            states: vec![vec![None]; KEYS as usize],
            told_ms: 0,
            told_at: None,
            numbers: 0,
            counts: Counts::default(),
        }
    }

    /// The server's time is not earlier.
    fn passed_ms(&self, now: u64) -> u64 {
        let since = self.told_at.map_or(0, |at| now - at);
        self.told_ms + (since - since.div_ceil(512)) / MS
    }

    /// Asks for the server's time.
    async fn ask(&mut self, stage: &Stage) {
        let client = stage.client_with(0, false).await;
        let asked_at = stage.now();
        let latest_ms = client.server_time_ms().await.unwrap();
        let now = stage.now();
        let answer = now - asked_at;
        let earliest_ms = latest_ms - (answer + answer / 256).div_ceil(MS) - 1;
        self.told_ms = max(earliest_ms, self.passed_ms(now));
        self.told_at = Some(now);
    }

    /// Another server goes on from the mark, or from its wall clock.
    fn restarts(&mut self) {
        self.told_at = None;
    }

    /// A value for a write, which may become a state of the key from now on.
    fn begin(&mut self, key: u64, expires: Option<Expiry>) -> Item {
        self.numbers += 1;
        let item = Item {
            number: self.numbers,
            expires,
        };
        self.states[key as usize].push(Some(item));
        item
    }

    fn is_now(&mut self, key: u64, state: Option<Item>) {
        self.states[key as usize] = vec![state];
    }

    /// A path has returned a value. The call began when the time was `passed_ms`.
    fn note_value(&mut self, key: u64, item: Item, passed_ms: u64) {
        let states = &self.states[key as usize];
        assert!(
            states.contains(&Some(item)),
            "key {key}: {item:?} of {states:?}"
        );
        self.counts.values += 1;
        self.counts.with_moment += u64::from(item.expires.is_some());
        let is_expired = |expires: Expiry| expires.ms() <= passed_ms;
        self.counts.expired += u64::from(item.expires.is_some_and(is_expired));
        self.is_now(key, Some(item));
    }

    /// A path says that the key is present, and not with which value.
    fn note_present(&mut self, key: u64, passed_ms: u64) {
        let states = &mut self.states[key as usize];
        states.retain(Option::is_some);
        assert!(!states.is_empty(), "key {key} was absent");
        let lives = |item: &Option<Item>| {
            let expires = item.and_then(|item| item.expires);
            expires.is_none_or(|expires| expires.ms() > passed_ms)
        };
        self.counts.values += 1;
        self.counts.expired += u64::from(!states.iter().any(lives));
    }

    /// The server says that the key is absent.
    fn note_absent(&mut self, key: u64) {
        self.note_absent_at(key, u64::MAX);
    }

    /// A path says that the key is absent. The time was `passed_ms` behind the call.
    fn note_absent_at(&mut self, key: u64, passed_ms: u64) {
        let states = &self.states[key as usize];
        let has_moment = |state: &Option<Item>| state.is_some_and(|item| item.expires.is_some());
        let may_be = states
            .iter()
            .any(|state| state.is_none() || has_moment(state));
        assert!(may_be, "key {key} is lost: {states:?}");
        let lives = |state: &Option<Item>| {
            let expires = state.and_then(|item| item.expires);
            expires.is_some_and(|expires| expires.ms() > passed_ms)
        };
        if !states.iter().any(lives) {
            self.counts.absent += u64::from(states.iter().any(has_moment));
            self.is_now(key, None);
        }
    }

    /// The answer of a client that was called when the time was `passed_ms`, and has answered at `now`.
    fn note(&mut self, key: u64, found: Option<Item>, passed_ms: u64, now: u64) {
        match found {
            Some(item) => self.note_value(key, item, passed_ms),
            None => self.note_absent_at(key, self.passed_ms(now)),
        }
    }
}

fn bytes_of(item: Item) -> Vec<u8> {
    let mut bytes = item.number.to_le_bytes().to_vec();
    bytes.resize(8 + (item.number % 200) as usize, 7);
    bytes
}

fn item_of(bytes: &[u8], expires: Option<Expiry>) -> Item {
    let number = u64::from_le_bytes(bytes[..8].try_into().unwrap());
    let item = Item { number, expires };
    assert_eq!(bytes, bytes_of(item));
    item
}

/// The clients of a server.
struct Clients {
    modest: Client,
    publishing: Client,
}

impl Clients {
    async fn connect(stage: &Stage, random: &mut Random) -> Self {
        Self {
            modest: stage.client_with(drift(random), false).await,
            publishing: stage.client_with(drift(random), true).await,
        }
    }

    fn any(&self, random: &mut Random) -> &Client {
        match random.random() {
            true => &self.modest,
            false => &self.publishing,
        }
    }
}

fn drift(random: &mut Random) -> i64 {
    match random.random_bool(0.6) {
        true => *[-DRIFT_PPM, DRIFT_PPM].choose(random).unwrap(),
        false => random.random_range(-DRIFT_PPM..=DRIFT_PPM),
    }
}

/// A moment for a key, mostly near by.
async fn moment(client: &Client, random: &mut Random) -> Option<Expiry> {
    let now_ms = client.server_time_ms().await.unwrap();
    let life_ms = match random.random_range(0..10) {
        0 => return None,
        1 => random.random_range(0..60_000),
        _ => random.random_range(0..3000),
    };
    Expiry::at_ms(now_ms + life_ms)
}

/// Reads all keys by one of the paths.
async fn read(model: &mut Model, stage: &Stage, client: &Client, random: &mut Random) {
    let passed_ms = model.passed_ms(stage.now());
    match random.random_range(0..5) {
        0 | 1 => {
            let mut bytes = Vec::new();
            for n in 0..KEYS {
                let passed_ms = model.passed_ms(stage.now());
                let found = client.find(&key(n), &mut bytes).await.unwrap();
                let found = found.map(|found| item_of(&bytes, found.expires));
                model.note(n, found, passed_ms, stage.now());
            }
        }
        2 => {
            let mut values = Values::default();
            let names: Vec<_> = (0..KEYS).map(key).collect();
            let keys: Vec<_> = names.iter().map(|name| &name[..]).collect();
            client.multi_get(&keys, &mut values).await.unwrap();
            for n in 0..KEYS {
                let found = values.get(n as usize);
                let expires = values.expires(n as usize);
                let found = found.map(|(bytes, _)| item_of(bytes, expires));
                model.note(n, found, passed_ms, stage.now());
            }
        }
        3 => {
            let mut entries = client.entries().await.unwrap();
            let (mut all, mut page) = (Vec::new(), Vec::new());
            loop {
                entries.next(client, &mut page).await.unwrap();
                if page.is_empty() {
                    break;
                }
                all.append(&mut page);
            }
            for n in 0..KEYS {
                let found = all.iter().find(|entry| entry.key == key(n));
                let found = found.map(|entry| item_of(&entry.value, entry.expires));
                model.note(n, found, passed_ms, stage.now());
            }
        }
        // A server that stands still has not noticed what has passed since it was asked.
        _ => {
            for n in 0..KEYS {
                if stage.peek(&key(n)) {
                    model.note_present(n, model.told_ms);
                }
            }
        }
    }
}

/// Puts some keys, also on condition of their absence, and deletes one.
async fn write(model: &mut Model, stage: &Stage, client: &Client, random: &mut Random) {
    for _ in 0..random.random_range(1..8) {
        let n = random.random_range(0..KEYS);
        let passed_ms = model.passed_ms(stage.now());
        if random.random_bool(0.1) {
            let before = model.states[n as usize].clone();
            model.states[n as usize].push(None);
            let was_there = client.delete(&key(n)).await.unwrap();
            model.states[n as usize] = before;
            match was_there {
                true => model.note_present(n, passed_ms),
                false => model.note_absent(n),
            }
            model.is_now(n, None);
            continue;
        }
        let rules = PutRules {
            condition: match random.random_bool(0.3) {
                true => Condition::Absent,
                false => Condition::None,
            },
            expires: moment(client, random).await,
        };
        let before = model.states[n as usize].clone();
        let item = model.begin(n, rules.expires);
        let put = client.put_if(&key(n), &bytes_of(item), rules).await;
        let is_done = matches!(put.unwrap(), Written::Done(_));
        model.states[n as usize] = before;
        match (is_done, rules.condition) {
            (false, _) => model.note_present(n, passed_ms),
            (true, Condition::Absent) => model.note_absent(n),
            (true, _) => {}
        }
        if is_done {
            model.is_now(n, Some(item));
        }
    }
}

/// Overwrites keys without moments, as a client that publishes does without the server.
async fn overwrite(model: &mut Model, client: &Client, random: &mut Random) {
    let n = random.random_range(0..KEYS);
    for _ in 0..8 {
        let item = model.begin(n, None);
        client.put(&key(n), &bytes_of(item)).await.unwrap();
        model.is_now(n, Some(item));
    }
}

/// Applies a batch that expects one key to be present, or absent, and changes that one and others.
async fn apply(model: &mut Model, stage: &Stage, client: &Client, random: &mut Random) {
    let first = random.random_range(0..KEYS);
    let is_present = random.random();
    let mut batch = Batch::new();
    batch.expect(
        &key(first),
        match is_present {
            true => Expectation::Present,
            false => Expectation::Absent,
        },
    );
    let before = model.states.clone();
    let mut items = Vec::new();
    for n in (first..KEYS).take(random.random_range(1..4)) {
        let expires = moment(client, random).await;
        let item = model.begin(n, expires);
        batch.put_until(&key(n), &bytes_of(item), expires);
        items.push((n, item));
    }
    let passed_ms = model.passed_ms(stage.now());
    let applied = client.apply(&batch).await.unwrap();
    model.states = before;
    let is_done = matches!(applied, Applied::Done(_));
    match is_done == is_present {
        true => model.note_present(first, passed_ms),
        false => model.note_absent(first),
    }
    if is_done {
        items
            .into_iter()
            .for_each(|(n, item)| model.is_now(n, Some(item)));
    }
}

/// Ends the server, mostly under a write, and starts another one. Its wall clock may have been set back or ahead.
async fn restart(model: &mut Model, stage: &Stage, clients: &Clients, random: &mut Random) {
    let work_ns = random.random_range(0..60_000);
    let mut drawn = random_from_seed(random.random());
    {
        let work = pin!(async {
            match drawn.random() {
                true => write(model, stage, &clients.modest, &mut drawn).await,
                false => apply(model, stage, &clients.publishing, &mut drawn).await,
            }
        });
        // The work may have ended before.
        let _ = select(work, pin!(stage.pass(work_ns))).await;
    }
    stage.set_drift(drift(random));
    let back_ns = *[0, 0, SECOND, DAY].choose(random).unwrap();
    match stage.survives_power() && random.random() {
        true => stage.lose_power_and_time(random, back_ns).await,
        false => stage.restart(End::Kill, back_ns).await,
    }
    model.restarts();
}

async fn history(stage: &Stage, seed: u64) -> Counts {
    let mut random = random_from_seed(seed);
    let mut model = Model::new();
    let mut clients = Clients::connect(stage, &mut random).await;
    for _ in 0..STEPS {
        let client = clients.any(&mut random);
        match random.random_range(0..24) {
            0..4 => write(&mut model, stage, client, &mut random).await,
            4..7 => apply(&mut model, stage, client, &mut random).await,
            7 => overwrite(&mut model, &clients.publishing, &mut random).await,
            8..12 => model.ask(stage).await,
            12 => match random.random() {
                true => stage.set_back(random.random_range(0..DAY)),
                false => stage.set_ahead(random.random_range(0..10 * SECOND)),
            },
            13..15 => {
                let time_ns = random.random_range(0..3 * SECOND);
                stage.pause(time_ns);
                stage.pass(random.random_range(0..=time_ns)).await;
            }
            15 => {
                restart(&mut model, stage, &clients, &mut random).await;
                clients = Clients::connect(stage, &mut random).await;
            }
            16 => stage.pass(random.random_range(0..30 * SECOND)).await,
            _ => stage.pass(random.random_range(0..SECOND)).await,
        }
        let client = clients.any(&mut random);
        read(&mut model, stage, client, &mut random).await;
    }
    model.counts
}

/// All histories together, so that a count of nothing at all is seen. Clients publish in a pool that survives kills
/// alone.
#[test]
pub fn no_random_history_returns_an_expired_key() {
    let mut all = Counts::default();
    for seed in 0..SEEDS {
        let clients = match seed % 2 {
            0 => ClientPolicy::Publishing,
            _ => ClientPolicy::Trusted,
        };
        Stage::tell_of(seed, clients, async |stage| {
            let counts = history(stage, seed).await;
            assert_eq!(counts.expired, 0, "seed {seed}: {counts:?}");
            all.values += counts.values;
            all.with_moment += counts.with_moment;
            all.absent += counts.absent;
        });
    }
    println!("{all:?}");
    assert!(
        all.values > 5000 && all.with_moment > 2000 && all.absent > 500,
        "{all:?}"
    );
}
