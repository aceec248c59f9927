//! The execution of an operation, without I/O, in front of everything that its writer has staged.
//!
//! ```text
//!   token known? ─yes─▶ the first answer again
//!        │no
//!        ▼
//!   for each part: walk ─▶ plan ─▶ draft        a group has several parts, which see each other; any other operation has one
//!        │
//!        ▼
//!   retire chain, results, table of structures ─▶ draft ─▶ commit
//! ```
//!
//! A fault leaves nothing of the draft, so a group is done as a whole or not at all.

use stonecast_base::{Span, mutant};

use crate::shapes::{
    Answer, CreateFault, DecodedNode, Description, ExecuteFault, ItemRead, ItemReader, NewResult,
    Place, Places, Plan, Reclaim, Repeated, Results, Roots, Stale, Step, Travel, Traversal,
    results_size,
};
use crate::space::{Allocator, Draft, Recall, Workspace};
use crate::wire::{Group, Operation, Pointer, Verb};

/// A domain as its writer knows it, with everything staged.
#[derive(Clone, Debug)]
pub(crate) struct DomainState {
    workspace: Workspace,
    roots: Roots,
    /// The results of operations with tokens; `None`: the results were not read.
    results: Option<Results>,
    recall: Recall,
}

/// The execution of one operation.
#[derive(Debug)]
pub(crate) struct Execution<'a> {
    operation: Operation<'a>,
    number: u64,
    /// For a retried operation: the number of the operation after which it was first staged.
    since: Option<u64>,
    parts: std::vec::IntoIter<Operation<'a>>,
    /// `None` once the execution has ended.
    open: Option<Open<'a>>,
    slab_size: u64,
    answers: Vec<Answer>,
    stage: Stage,
    recall: &'a mut Recall,
}

/// The changes of the parts that were executed so far.
#[derive(Debug)]
struct Open<'a> {
    draft: Draft<'a>,
    /// The structures before the operation.
    roots: &'a mut Roots,
    /// The structures after the operation, if the operation changes them.
    changed: Option<Roots>,
    results: &'a mut Option<Results>,
}

impl Open<'_> {
    fn roots(&self) -> &Roots {
        self.changed.as_ref().unwrap_or(self.roots)
    }
}

impl<'a> Open<'a> {
    /// Takes the next step of a walk, and the steps after it over nodes that are known in their decoded form.
    fn step(&mut self, travel: &mut Travel, bytes: &[Vec<u8>]) -> Step<Plan> {
        let mut step = travel.step(bytes);
        if let Some(node) = travel.take_decoded() {
            self.draft.keep_decoded(node.span(), node);
        }
        while let Step::Read(places) = &step
            && let [place] = &places[..]
            && let Some(node) = self.draft.decoded::<DecodedNode>(place.span)
            && let Some(next) = travel.step_over(&node)
        {
            step = next;
        }
        step
    }

    /// The draft, and the structures to change.
    fn parts(&mut self) -> (&mut Draft<'a>, &mut Roots) {
        let draft = &mut self.draft;
        let roots = self.changed.get_or_insert_with(|| {
            let mut roots = self.roots.clone();
            roots.begin(draft);
            roots
        });
        (draft, roots)
    }
}

#[derive(Debug)]
enum Stage {
    Begin,
    /// The table of results is being read.
    Results,
    /// The answer of the operation that had the token is being read.
    Repeated(Repeated, ItemReader, Pointer),
    /// A structure is being walked.
    Travel(u32, Travel),
    Reclaim(Reclaim),
}

/// The end of an execution.
#[derive(Debug)]
pub(crate) enum Executed<'a> {
    /// The operation was done before: nothing changes.
    Before {
        /// The first answer to the operation.
        answer: Answer,
        /// The number of the operation.
        number: u64,
    },
    /// The operation changes something, if it is committed.
    Now(Box<Changes<'a>>),
}

/// The changes of an operation.
#[derive(Debug)]
pub(crate) struct Changes<'a> {
    pub answer: Answer,
    open: Open<'a>,
    /// A table of results that was made, and the line of the operation.
    new_results: Option<Results>,
    new_result: Option<NewResult>,
}

impl Changes<'_> {
    /// Bytes that the changes add to the open transaction, at most.
    pub fn size_max(&self) -> usize {
        self.open.draft.size_max()
    }

    /// Makes the changes a part of the open transaction.
    pub fn commit(self) {
        let Open {
            draft,
            roots,
            changed,
            results,
        } = self.open;
        draft.commit();
        if let Some(changed) = changed {
            *roots = changed;
        }
        if self.new_results.is_some() {
            *results = self.new_results;
        }
        if let (Some(results), Some(new)) = (results, self.new_result) {
            results.note(new);
        }
    }
}

impl DomainState {
    /// A domain with these structures and free blocks.
    pub fn new(allocator: Allocator, roots: Roots) -> Self {
        Self {
            workspace: Workspace::new(allocator),
            roots,
            results: None,
            recall: Recall::default(),
        }
    }

    /// The structures, with everything staged.
    pub fn roots(&self) -> &Roots {
        &self.roots
    }

    /// Memory and open transaction.
    pub fn workspace(&self) -> &Workspace {
        &self.workspace
    }

    /// Memory and open transaction.
    pub fn workspace_mut(&mut self) -> &mut Workspace {
        &mut self.workspace
    }

    /// Begins an operation. `lsn` is the generation of the blocks that it takes, `number` its own number.
    pub fn execute<'a>(
        &'a mut self,
        operation: &Operation<'a>,
        (lsn, number): (u64, u64),
    ) -> Result<Execution<'a>, ExecuteFault> {
        let verb = operation.verb;
        let parts = match verb {
            Verb::Group => Group::parse(operation.value).ok_or(ExecuteFault::Value { verb })?,
            _ => vec![*operation],
        };
        let slab_size = self.workspace.allocator().geometry().size();
        self.recall.begin();
        Ok(Execution {
            operation: *operation,
            number,
            since: None,
            parts: parts.into_iter(),
            open: Some(Open {
                draft: self.workspace.draft(lsn),
                roots: &mut self.roots,
                changed: None,
                results: &mut self.results,
            }),
            slab_size,
            answers: Vec::new(),
            stage: Stage::Begin,
            recall: &mut self.recall,
        })
    }
}

type Ended<'a> = Result<Executed<'a>, ExecuteFault>;

/// The next step of an execution that meets no fault.
enum Next<'a> {
    Read(Places),
    End(Executed<'a>),
}

impl<'a> Execution<'a> {
    /// This execution for an operation that was first staged after the operation `since`. The operation is refused
    /// unless the result of the first attempt would still be known.
    pub fn retried(mut self, since: u64) -> Self {
        self.since = Some(since);
        self
    }

    fn open(&mut self) -> &mut Open<'a> {
        self.open.as_mut().expect("the execution goes on")
    }

    fn advance(&mut self, bytes: &[Vec<u8>]) -> Result<Next<'a>, ExecuteFault> {
        match std::mem::replace(&mut self.stage, Stage::Begin) {
            Stage::Begin => self.begin(),
            Stage::Results => {
                let open = self.open();
                let (block, tags) = open.roots().results();
                *open.results = Some(Results::parse(block, tags, &bytes[0]));
                self.begin()
            }
            Stage::Repeated(repeated, items, pointer) => match items.judge(pointer, &bytes[0]) {
                ItemRead::Stale(stale) => Err(stale.into()),
                ItemRead::Longer(place) => {
                    self.stage = Stage::Repeated(repeated, items, pointer);
                    Ok(Next::Read(Places::from_iter([Place::last(place)])))
                }
                ItemRead::Whole(item) => before(&repeated, Answer::parse(&item.value)),
            },
            Stage::Travel(number, travel) => self.travel(number, travel, bytes),
            Stage::Reclaim(reclaim) => self.reclaim(reclaim, bytes),
        }
    }

    /// Searches the result of the operation's token, and begins with the first part.
    fn begin(&mut self) -> Result<Next<'a>, ExecuteFault> {
        let (operation, slab_size, since) = (self.operation, self.slab_size, self.since);
        if operation.token == 0 {
            return self.next_part();
        }
        let open = self.open();
        let (block, tags) = open.roots().results();
        let results = match &*open.results {
            Some(results) => results,
            None if block.is_null() => return self.next_part(),
            None => {
                self.stage = Stage::Results;
                let place = block.span(results_size(slab_size));
                return Ok(Next::Read(Places::from_iter([Place::last(place)])));
            }
        };
        let Some(repeated) = results.repeated(&operation)? else {
            let is_kept = since.is_none_or(|since| results.keeps_since(since));
            if !is_kept && !mutant!(ForgottenRetried) {
                let token = operation.token;
                return Err(ExecuteFault::Forgotten { token });
            }
            return self.next_part();
        };
        match repeated.item(tags) {
            None => before(&repeated, repeated.answer()),
            Some((items, pointer)) => {
                let place = items.first(pointer);
                self.stage = Stage::Repeated(repeated, items, pointer);
                Ok(Next::Read(Places::from_iter([Place::last(place)])))
            }
        }
    }

    fn next_part(&mut self) -> Result<Next<'a>, ExecuteFault> {
        while let Some(part) = self.parts.next() {
            match part.verb {
                Verb::Reclaim => {
                    let verb = part.verb;
                    let limit = part.value.try_into().map(u32::from_le_bytes);
                    let limit = limit.map_err(|_| ExecuteFault::Value { verb })?;
                    let reclaim = Reclaim::new(self.open().roots(), limit);
                    return self.reclaim(reclaim, &[]);
                }
                verb if verb.is_of_domain() => {
                    let answer = self.of_domain(&part)?;
                    self.answers.push(answer);
                }
                _ => {
                    let number = part.structure;
                    let structure = self.open().roots().structure(number);
                    let structure = structure.ok_or(ExecuteFault::Structure { number })?;
                    if let Some(answer) = structure.execute_at_hand(&mut self.open().draft, &part) {
                        self.answers.push(answer);
                        continue;
                    }
                    return self.travel(number, structure.travel(&part)?, &[]);
                }
            }
        }
        self.end()
    }

    /// Executes a part that needs no walk.
    fn of_domain(&mut self, part: &Operation<'_>) -> Result<Answer, ExecuteFault> {
        let text = |bytes: &'_ [u8]| match str::from_utf8(bytes) {
            Ok(text) => Ok(text.to_owned()),
            Err(_) => Err(CreateFault::Name(bytes.len())),
        };
        let name = &*text(part.key)?;
        let (draft, roots) = self.open().parts();
        Ok(match part.verb {
            Verb::Create => {
                let description = Description::parse(part.value);
                let description = description.ok_or(CreateFault::Description)?;
                Answer::Created(roots.create(draft, name, description)?)
            }
            Verb::Rename => {
                roots.rename(name, &text(part.value)?)?;
                Answer::Done
            }
            Verb::Clear => Answer::Created(roots.clear(draft, name)?),
            Verb::Drop => {
                roots.end(draft, name)?;
                Answer::Done
            }
            verb => return Err(ExecuteFault::Verb { verb }),
        })
    }

    fn travel(
        &mut self,
        number: u32,
        mut travel: Travel,
        bytes: &[Vec<u8>],
    ) -> Result<Next<'a>, ExecuteFault> {
        match self.open().step(&mut travel, bytes) {
            Step::Read(places) => {
                self.stage = Stage::Travel(number, travel);
                Ok(Next::Read(places))
            }
            Step::Stale(stale) => Err(stale.into()),
            Step::Done(plan) => {
                let open = self.open();
                let (answer, root) = plan.apply(&mut open.draft)?;
                if let Some(root) = root {
                    open.parts().1.set_root(number, root);
                }
                self.answers.push(answer);
                self.next_part()
            }
        }
    }

    fn reclaim(
        &mut self,
        mut reclaim: Reclaim,
        bytes: &[Vec<u8>],
    ) -> Result<Next<'a>, ExecuteFault> {
        match reclaim.step(bytes) {
            Step::Read(places) => {
                self.stage = Stage::Reclaim(reclaim);
                Ok(Next::Read(places))
            }
            Step::Stale(stale) => Err(stale.into()),
            Step::Done(plan) => {
                let (draft, roots) = self.open().parts();
                let answer = plan.apply(draft, roots)?;
                self.answers.push(answer);
                self.next_part()
            }
        }
    }

    /// Writes the parts of the domain: the result for the token, and the table of structures.
    fn end(&mut self) -> Result<Next<'a>, ExecuteFault> {
        let mut answers = std::mem::take(&mut self.answers);
        let answer = match self.operation.verb {
            Verb::Group => Answer::Group(answers),
            _ => answers.pop().expect("an operation has a part"),
        };
        let mut open = self.open.take().expect("the execution goes on");
        let (mut new_results, mut new_result) = (None, None);
        if self.operation.token != 0 {
            if open.results.is_none() {
                let results = Results::create(&mut open.draft, self.slab_size)?;
                open.parts().1.set_results(results.block());
                new_results = Some(results);
            }
            let results = new_results.as_ref().or(open.results.as_ref());
            let told = (self.number, &answer);
            let tags = open.roots().results().1;
            let results = results.expect("there is a table now");
            new_result = Some(results.write(&mut open.draft, tags, &self.operation, told)?);
        }
        if open.draft.has_retired() || open.changed.is_some() {
            let old = open.roots.clone();
            let (draft, roots) = open.parts();
            roots.write(draft, &old)?;
        }
        Ok(Next::End(Executed::Now(Box::new(Changes {
            answer,
            open,
            new_results,
            new_result,
        }))))
    }
}

/// The end of an operation that was done before.
fn before<'a>(repeated: &Repeated, answer: Option<Answer>) -> Result<Next<'a>, ExecuteFault> {
    let stale = Stale {
        place: Span::new(0, 0),
        what: "result of an operation",
    };
    let answer = answer.ok_or(stale)?;
    let number = repeated.number;
    Ok(Next::End(Executed::Before { answer, number }))
}

impl<'a> Traversal for Execution<'a> {
    type End = Ended<'a>;

    /// Takes bytes as they lie in the pool, and puts staged words over them. Asks for words that the writer does not
    /// know.
    fn step(&mut self, bytes: &[Vec<u8>]) -> Step<Ended<'a>> {
        let mut recall = std::mem::take(self.recall);
        self.open().draft.take(&mut recall, bytes);
        let step = loop {
            let missing = match self.advance(recall.bytes()) {
                Ok(Next::Read(places)) => self.open().draft.ask(&mut recall, &places),
                Ok(Next::End(executed)) => break Step::Done(Ok(executed)),
                // A writer reads memory that no other process changes: a stale place is damaged.
                Err(fault) => break Step::Done(Err(fault)),
            };
            if let Some(missing) = missing {
                break Step::Read(missing);
            }
        };
        *self.recall = recall;
        step
    }
}
