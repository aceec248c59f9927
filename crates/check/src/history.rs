//! The calls and answers of clients, in one order of events.

/// A moment in a history: counts calls and answers of all clients, crashes and restarts.
pub type Moment = u64;

/// The moment of an answer that has not arrived.
pub const NEVER: Moment = Moment::MAX;

/// The number of a node of the store under test.
pub type NodeId = u32;

/// One operation: a call `C`, and the answer `A` to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation<C, A> {
    /// The client.
    pub client: u32,
    /// The only node that can execute the operation; `None`: several nodes have the operation, or may get it.
    pub node: Option<NodeId>,
    /// The part of the object that the operation concerns, for example a key.
    pub part: u32,
    /// The call.
    pub call: C,
    /// The moment of the call.
    pub called: Moment,
    /// The answer; `None`: an error, or no answer. In that case the call may have been executed or not.
    pub answer: Option<A>,
    /// The moment of the answer; for an unknown outcome, the moment after which the operation can
    /// no longer take effect. [`NEVER`]: the operation may take effect at any later moment.
    pub answered: Moment,
}

/// Names an operation of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OperationId(usize);

/// All operations of a run.
#[derive(Clone, Debug)]
pub struct History<C, A> {
    operations: Vec<Operation<C, A>>,
    by_part: Vec<Vec<u32>>,
    now: Moment,
    answers: u64,
}

impl<C, A> History<C, A> {
    /// An empty history of an object of `parts` parts.
    pub fn new(parts: u32) -> Self {
        Self {
            operations: Vec::new(),
            by_part: (0..parts).map(|_| Vec::new()).collect(),
            now: 0,
            answers: 0,
        }
    }

    /// Returns the present moment, and advances to the next.
    pub fn tick(&mut self) -> Moment {
        self.now += 1;
        self.now
    }

    /// The present moment.
    pub fn now(&self) -> Moment {
        self.now
    }

    /// Notes the call of a client. `node` is the only node that can execute it, if there is one.
    pub fn call(&mut self, client: u32, node: Option<NodeId>, part: u32, call: C) -> OperationId {
        let called = self.tick();
        self.by_part[part as usize].push(self.operations.len() as u32);
        self.operations.push(Operation {
            client,
            node,
            part,
            call,
            called,
            answer: None,
            answered: NEVER,
        });
        OperationId(self.operations.len() - 1)
    }

    /// Notes the answer to a call; `None`: the client gave up without one.
    pub fn answer(&mut self, id: OperationId, answer: Option<A>) {
        let now = self.tick();
        let operation = &mut self.operations[id.0];
        assert!(
            operation.answer.is_none(),
            "an operation is answered once: moment {now}"
        );
        // An answer that arrives after the death of the operation's node belongs to an operation that took effect
        // before the death.
        if answer.is_some() && operation.answered == NEVER {
            operation.answered = now;
        }
        operation.answer = answer;
        self.answers += 1;
    }

    /// Notes an answer that other answers prove. The operation took effect by the moment that is known already.
    pub fn learn(&mut self, id: OperationId, answer: A) {
        self.operations[id.0].answer = Some(answer);
    }

    /// The operation that `id` names.
    pub fn operation(&self, id: OperationId) -> &Operation<C, A> {
        &self.operations[id.0]
    }

    /// Notes that a client repeats an unanswered operation on `node`, so that the operation can take effect again.
    pub fn again(&mut self, id: OperationId, node: Option<NodeId>) {
        let operation = &mut self.operations[id.0];
        assert!(
            operation.answer.is_none(),
            "an answered operation is not repeated"
        );
        operation.answered = NEVER;
        operation.node = node;
    }

    /// Notes the death of `node`. No pending operation of this node alone can take effect later. Operations on other
    /// nodes can, and so can operations that may be on several nodes.
    pub fn crash(&mut self, node: NodeId) -> Moment {
        let now = self.tick();
        self.operations
            .iter_mut()
            .filter(|operation| operation.answered == NEVER && operation.node == Some(node))
            .for_each(|operation| operation.answered = now);
        now
    }

    /// Notes the death of all nodes: no pending operation can take effect later.
    pub fn crash_of_all(&mut self) {
        let now = self.tick();
        let operations = self.operations.iter_mut();
        operations
            .filter(|operation| operation.answered == NEVER)
            .for_each(|operation| operation.answered = now);
    }

    /// The operations on `part`, in the order of their calls.
    pub fn of_part(&self, part: u32) -> impl Iterator<Item = &Operation<C, A>> + Clone {
        self.by_part[part as usize]
            .iter()
            .map(|&index| &self.operations[index as usize])
    }

    /// The names of the operations on `part`, in the order of their calls.
    pub fn ids_of_part(&self, part: u32) -> impl Iterator<Item = OperationId> {
        let indices = self.by_part[part as usize].iter();
        indices.map(|&index| OperationId(index as usize))
    }

    /// All operations.
    pub fn operations(&self) -> &[Operation<C, A>] {
        &self.operations
    }

    /// The number of parts.
    pub fn parts(&self) -> u32 {
        self.by_part.len() as u32
    }

    /// The number of answers, and of calls that were given up.
    pub fn answers(&self) -> u64 {
        self.answers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fails without the comparison of nodes: the death of one node does not affect an operation on another one.
    #[test]
    fn the_death_of_a_node_cuts_off_operations_on_that_node_alone() {
        let mut history: History<&str, ()> = History::new(1);
        let here = history.call(0, Some(0), 0, "on node 0");
        let there = history.call(1, Some(1), 0, "on node 1");
        let both = history.call(2, None, 0, "on several nodes");
        let crash = history.crash(0);
        let ends =
            |history: &History<&str, ()>, id: OperationId| history.operations()[id.0].answered;
        assert_eq!(
            [here, there, both].map(|id| ends(&history, id)),
            [crash, NEVER, NEVER]
        );
        // Repeated on another node, the operation is open again, and the first node's next death does not matter.
        history.again(here, Some(1));
        history.crash(0);
        assert_eq!(ends(&history, here), NEVER);
        let crash = history.crash(1);
        assert_eq!(ends(&history, here), crash);
        // The answer was late, not the effect.
        history.answer(there, Some(()));
        assert_eq!(ends(&history, there), crash);
    }
}
