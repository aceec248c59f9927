//! The life of a front-end: a writer that takes its turn with another one, or a reader.

use std::rc::Rc;

use rand::RngExt as _;
use stonecast_base::{Random, random_from_seed};
use stonecast_fabric_sim::Process;
use stonecast_structures::shapes::{Description, ExecuteFault};
use stonecast_structures::{
    BackEnd, DomainName, FRONT_END_COMPLETIONS, FrontEndError, Key as _, Operation, Publication,
    Reader, StageFault, Verb, Writer,
};

use super::intent::{Intent, Want, value_in};
use super::ledger::Entry;
use super::model::{Answer, Call};
use super::setup::WRITERS;
use super::subject::{ADDRESS, KINDS, Structures, structure_of};
use crate::history::OperationId;
use crate::values::{VALUE_SIZE_MIN, ValueId};

/// Pause before a front-end tries again.
const RETRY_NS: u64 = 200_000;
/// Bytes of the longest value that lies in a node, and of one that has a block of its own.
const VALUE_SIZE_MAX: usize = 80;
const LONG_VALUE_SIZE: usize = 400;
/// Batches of a tenure, at most.
const BATCHES: u32 = 4;
/// Blocks of old versions that one operation frees.
const RECLAIMED: u32 = 20;

/// Looks of a reader after which it looks less often.
const LOOKS: u64 = 32;

/// Works until nothing is left to do. After a failure the outcome of calls under way is unknown, and the connection is
/// new.
pub(super) async fn live(of: Rc<Structures>, process: Process, client: u32, seed: u64) {
    let mut random = random_from_seed(seed);
    while of.left.get() > 0 {
        let ended = match client < WRITERS {
            true => write(&of, &process, client, &mut random).await,
            false => read(&of, &process, client, &mut random).await,
        };
        if let Err(FrontEndError::Stale(_) | FrontEndError::Protocol) = &ended {
            of.note_damage(ended.as_ref().expect_err("just looked"));
        }
        process.runtime().sleep(RETRY_NS).await;
    }
}

async fn connect(process: &Process) -> Result<(Rc<BackEnd>, u32), FrontEndError> {
    let port = process.port(FRONT_END_COMPLETIONS)?;
    let back_end = BackEnd::connect(&port, ADDRESS).await?;
    let name = DomainName::new("all").expect("a short name");
    let domain = back_end.open_domain(name).await?;
    Ok((back_end, domain))
}

/// One tenure: creates missing structures, retries the open operation of its predecessor, then stages, flushes and
/// publishes.
async fn write(
    of: &Structures,
    process: &Process,
    client: u32,
    random: &mut Random,
) -> Result<(), FrontEndError> {
    let (back_end, domain) = connect(process).await?;
    let writer = back_end.writer(domain).await?;
    let mut tenure = Tenure {
        of,
        client,
        writer,
        open: Vec::new(),
        publications: Vec::new(),
    };
    tenure.begin().await?;
    for _ in 0..random.random_range(1..=BATCHES) {
        for _ in 0..random.random_range(1..5) {
            if of.left.get() == 0 {
                break;
            }
            of.left.update(|left| left - 1);
            tenure.work(random).await?;
        }
        match random.random_range(0..4) {
            0 => tenure.flush().await?,
            1 => tenure.start_publication().await?,
            _ => tenure.publish().await?,
        }
    }
    // The next tenure takes up the remaining operations. A writer that does not release its tenure loses the tenure
    // with its connection.
    match random.random_range(0..2) {
        0 => tenure.writer.release().await,
        _ => Ok(()),
    }
}

/// A writer in its tenure.
struct Tenure<'a> {
    of: &'a Structures,
    client: u32,
    writer: Writer,
    /// Answers that count when everything staged is published.
    open: Vec<(OperationId, Answer)>,
    /// Publications that have begun, each with its last operation and the answers that count at its end.
    publications: Vec<Begun>,
}

/// A publication that has begun.
struct Begun {
    publication: Publication,
    last: u64,
    answers: Vec<(OperationId, Answer)>,
}

impl Tenure<'_> {
    async fn begin(&mut self) -> Result<(), FrontEndError> {
        let (tenure, operations) = (self.writer.tenure(), self.writer.operations());
        self.of.judge(|ledger| ledger.begin(tenure, operations));
        for kind in KINDS {
            if structure_of(self.writer.roots(), kind).is_none() {
                let description = Description {
                    kind,
                    key_size_max: if kind.has_keys() { 8 } else { 0 },
                    value_size: 40,
                    schema: 0,
                };
                let name = format!("{kind:?}");
                self.of_domain(Verb::Create, name.as_bytes(), &description.encode())
                    .await?;
            }
        }
        let open = self.of.open.borrow_mut().remove(&self.client);
        if let Some(intent) = open {
            self.stage(intent).await?;
        }
        self.publish().await
    }

    async fn of_domain(
        &mut self,
        verb: Verb,
        key: &[u8],
        value: &[u8],
    ) -> Result<(), FrontEndError> {
        let operation = Operation {
            token: 0,
            structure: 0,
            verb,
            key,
            value,
        };
        let (_, _published) = self.writer.stage(&operation).await?;
        self.note(Entry {
            token: 0,
            effects: Vec::new(),
            ids: Vec::new(),
        });
        Ok(())
    }

    /// Notes the operation that was staged last.
    fn note(&self, entry: Entry) {
        let (tenure, number) = (self.writer.tenure(), self.writer.operations());
        self.of.judge(|ledger| ledger.stage(tenure, number, entry));
    }

    /// Stages something new.
    async fn work(&mut self, random: &mut Random) -> Result<(), FrontEndError> {
        let count = match random.random_range(0..4) {
            0 => random.random_range(2..4),
            _ => 1,
        };
        let token = match random.random_range(0..2) {
            0 => 0,
            _ => self.of.next_token(),
        };
        let wants = (0..count).map(|_| self.want(random)).collect();
        let since = None;
        self.stage(Intent {
            token,
            since,
            wants,
        })
        .await?;
        if random.random_range(0..8) == 0 {
            let blocks = RECLAIMED.to_le_bytes();
            self.of_domain(Verb::Reclaim, &[], &blocks).await?;
        }
        Ok(())
    }

    fn want(&self, random: &mut Random) -> Want {
        let part = random.random_range(0..self.of.parts());
        let (kind, _) = self.of.place_of(part);
        let value = self.of.next_value();
        let call = match (kind.has_keys(), random.random_range(0..3)) {
            (true, 0) => Call::Remove,
            (true, _) => Call::Insert(value),
            (false, 0) => Call::Pop,
            (false, _) => Call::Push(value),
        };
        let size = match random.random_range(0..10) {
            0 => LONG_VALUE_SIZE,
            _ => random.random_range(VALUE_SIZE_MIN..=VALUE_SIZE_MAX),
        };
        let id = self
            .of
            .testimony
            .call(self.client, None, part, call.clone());
        Want {
            part,
            call,
            size,
            id,
        }
    }

    /// Stages one operation. Its answers count when it is published. An operation with a token is kept until then.
    async fn stage(&mut self, mut intent: Intent) -> Result<(), FrontEndError> {
        let before = intent.since.replace(self.writer.operations());
        intent.since = before.or(intent.since);
        if intent.token != 0 {
            let mut open = self.of.open.borrow_mut();
            open.insert(self.client, intent.clone());
        }
        let encoded = intent.encode(self.of, self.writer.roots());
        let staged = match before {
            None => self.writer.stage(&encoded.operation()).await,
            Some(since) => self.writer.stage_again(&encoded.operation(), since).await,
        };
        if let Err(FrontEndError::Stage(StageFault::Execute(ExecuteFault::Forgotten { .. }))) =
            staged
        {
            // Other front-ends have done so much in the meantime that it is unknown whether the operation was done.
            self.of.open.borrow_mut().remove(&self.client);
            return Ok(());
        }
        let (answer, _) = staged?;
        let answers = intent.answers(answer);
        let told = intent.wants.iter().zip(answers);
        let effects = told.map(|(want, answer)| (want.part, want.call.clone(), answer));
        let effects: Vec<_> = effects.collect();
        for (want, (.., answer)) in intent.wants.iter().zip(&effects) {
            self.open.push((want.id, answer.clone()));
        }
        self.note(Entry {
            token: intent.token,
            effects,
            ids: intent.wants.iter().map(|want| want.id).collect(),
        });
        Ok(())
    }

    fn tell(&self, is_published: bool) {
        self.tell_until(self.writer.operations(), is_published);
    }

    fn tell_until(&self, number: u64, is_published: bool) {
        let tenure = self.writer.tenure();
        self.of
            .judge(|ledger| ledger.tell(tenure, number, is_published));
    }

    async fn flush(&mut self) -> Result<(), FrontEndError> {
        self.writer.flush().await?;
        self.tell(false);
        Ok(())
    }

    /// Begins to publish, and goes on.
    async fn start_publication(&mut self) -> Result<(), FrontEndError> {
        let publication = self.writer.start_publication().await?;
        self.publications.push(Begun {
            publication,
            last: self.writer.operations(),
            answers: std::mem::take(&mut self.open),
        });
        Ok(())
    }

    /// Waits for the publications that have begun, and publishes the rest.
    async fn publish(&mut self) -> Result<(), FrontEndError> {
        for begun in std::mem::take(&mut self.publications) {
            begun.publication.await?;
            self.tell_until(begun.last, true);
            self.answer(begun.answers);
        }
        self.writer.publish().await?;
        self.tell(true);
        let answers = std::mem::take(&mut self.open);
        self.answer(answers);
        Ok(())
    }

    /// Takes answers, which count from now on. No later tenure repeats an operation that has one.
    fn answer(&self, answers: Vec<(OperationId, Answer)>) {
        let mut open = self.of.open.borrow_mut();
        for (id, answer) in answers {
            self.of.testimony.answer(id, Some(answer));
            let is_answered = |intent: &Intent| intent.wants.iter().any(|want| want.id == id);
            if open.get(&self.client).is_some_and(is_answered) {
                open.remove(&self.client);
            }
        }
    }
}

/// Looks at one part after the other, and at snapshots.
async fn read(
    of: &Structures,
    process: &Process,
    client: u32,
    random: &mut Random,
) -> Result<(), FrontEndError> {
    let (back_end, domain) = connect(process).await?;
    let mut reader = back_end.reader(domain).await?.remembering(1 << 16);
    let mut looks = 0;
    while of.left.get() > 0 {
        match random.random_range(0..6) {
            0 => look_at_snapshot(of, &mut reader).await?,
            _ => {
                let part = random.random_range(0..of.parts());
                look_and_tell(of, &mut reader, client, part).await?;
            }
        }
        looks += 1;
        // While writers wait for a machine that is gone, a reader has little to see.
        let pause = random.random_range(1_000..100_000) * (1 + looks / LOOKS);
        process.runtime().sleep(pause).await;
    }
    Ok(())
}

async fn look_and_tell(
    of: &Structures,
    reader: &mut Reader,
    client: u32,
    part: u32,
) -> Result<(), FrontEndError> {
    let id = of.testimony.call(client, None, part, Call::Look);
    let looked = look(of, reader, part).await;
    let answer = looked.as_ref().ok().map(|value| Answer::Value(*value));
    of.testimony.answer(id, answer);
    looked.map(drop)
}

/// All versions that one table of structures names belong to one moment.
async fn look_at_snapshot(of: &Structures, reader: &mut Reader) -> Result<(), FrontEndError> {
    let from = of.ledger.borrow().published();
    let roots = reader.roots().await?;
    let mut found = Vec::new();
    for part in 0..of.parts() {
        let (kind, key) = of.place_of(part);
        let Some((number, _)) = structure_of(&roots, kind).filter(|_| kind.is_versioned()) else {
            continue;
        };
        let value = match reader.get(&roots, number, &key.encoded()).await {
            // Nothing of the snapshot counts: its other half would be of another moment.
            Err(FrontEndError::TooOld) => return Ok(()),
            value => value?,
        };
        found.push((
            part,
            value
                .map(|value| value_in(Some(value)))
                .into_iter()
                .collect(),
        ));
    }
    of.judge(|ledger| ledger.judge_snapshot(from, &found));
    Ok(())
}

/// The value of a key, or the value that comes next. The table of structures is read for each look: a version of it
/// would show that moment.
async fn look(of: &Structures, reader: &mut Reader, part: u32) -> Result<ValueId, FrontEndError> {
    let (kind, key) = of.place_of(part);
    loop {
        let roots = reader.roots().await?;
        let Some((number, _)) = structure_of(&roots, kind) else {
            return Ok(ValueId::ABSENT);
        };
        let found = match kind.has_keys() {
            true => reader.get(&roots, number, &key.encoded()).await,
            false => reader.peek(&roots, number).await,
        };
        match found {
            // A front-end that hung finds a later version.
            Err(FrontEndError::TooOld) => {}
            found => return Ok(value_in(found?)),
        }
    }
}

/// Reads everything at the end of a run.
pub(super) async fn read_all(of: Rc<Structures>, process: Process) {
    loop {
        if let Ok((back_end, domain)) = connect(&process).await
            && let Ok(mut reader) = back_end.reader(domain).await
            && read_parts(&of, &mut reader).await.is_ok()
        {
            return;
        }
        process.runtime().sleep(RETRY_NS).await;
    }
}

async fn read_parts(of: &Structures, reader: &mut Reader) -> Result<(), FrontEndError> {
    for part in 0..of.parts() {
        look_and_tell(of, reader, u32::MAX, part).await?;
    }
    look_at_snapshot(of, reader).await
}
