//! The walk before an operation on a structure of any kind, and the plan that follows from it.

use super::btree;
use super::classic;
use super::hash;
use super::root::Root;
use super::sequence::{CursorPlan, CursorTravel, QueuePlan, QueueTravel, StackPlan, StackTravel};
use super::structure::ExecuteFault;
use super::traversal::{Answer, Step, Traversal};
use crate::space::Draft;

/// The walk before an operation.
#[derive(Clone, Debug)]
pub enum Travel {
    /// Of a hash table.
    HashTable(Box<hash::Change>),
    /// Of a B+tree.
    BTree(Box<btree::Change>),
    /// Of a load into a B+tree.
    Load(Box<btree::Load>),
    /// Of a multi-version B+tree.
    MvBTree(Box<btree::MvChange>),
    /// Of a binary search tree.
    BinaryTree(Box<classic::Change>),
    /// Of a skip list.
    SkipList(Box<classic::ListChange>),
    /// Of a stack.
    Stack(StackTravel),
    /// Of a queue.
    Queue(QueueTravel),
    /// Of a cursor.
    Cursor(CursorTravel),
}

/// Everything that an operation needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Of a hash table.
    HashTable(hash::ChangePlan),
    /// Of a B+tree.
    BTree(btree::ChangePlan),
    /// Of a load into a B+tree.
    Load(btree::LoadPlan),
    /// Of a multi-version B+tree.
    MvBTree(btree::MvChangePlan),
    /// Of a binary search tree.
    BinaryTree(classic::ChangePlan),
    /// Of a skip list.
    SkipList(Box<classic::ListChangePlan>),
    /// Of a stack.
    Stack(StackPlan),
    /// Of a queue.
    Queue(QueuePlan),
    /// Of a cursor.
    Cursor(CursorPlan),
}

/// The decoded form of a node that many walks pass.
pub(crate) type DecodedNode = btree::InnerNode;

impl Travel {
    /// Takes the next step over the node that was asked for, in its decoded form. `None`: the step needs the bytes.
    pub(crate) fn step_over(&mut self, node: &DecodedNode) -> Option<Step<Plan>> {
        match self {
            Self::BTree(travel) => Some(travel.step_over(node)?.map(Plan::BTree)),
            _ => None,
        }
    }

    /// The node of the last step in its decoded form, if other walks may pass it.
    pub(crate) fn take_decoded(&mut self) -> Option<DecodedNode> {
        match self {
            Self::BTree(travel) => travel.take_decoded(),
            _ => None,
        }
    }
}

impl Traversal for Travel {
    type End = Plan;

    fn step(&mut self, bytes: &[Vec<u8>]) -> Step<Plan> {
        match self {
            Self::HashTable(travel) => travel.step(bytes).map(Plan::HashTable),
            Self::BTree(travel) => travel.step(bytes).map(Plan::BTree),
            Self::Load(travel) => travel.step(bytes).map(Plan::Load),
            Self::MvBTree(travel) => travel.step(bytes).map(Plan::MvBTree),
            Self::BinaryTree(travel) => travel.step(bytes).map(Plan::BinaryTree),
            Self::SkipList(travel) => {
                let step = travel.step(bytes);
                step.map(|plan| Plan::SkipList(Box::new(plan)))
            }
            Self::Stack(travel) => travel.step(bytes).map(Plan::Stack),
            Self::Queue(travel) => travel.step(bytes).map(Plan::Queue),
            Self::Cursor(travel) => travel.step(bytes).map(Plan::Cursor),
        }
    }
}

impl Plan {
    /// Writes the changes of the operation. They are those of the structure as the walk has found it. Returns the new
    /// root of a multi-version structure.
    pub(crate) fn apply(
        self,
        draft: &mut Draft<'_>,
    ) -> Result<(Answer, Option<Root>), ExecuteFault> {
        let answer = match self {
            Self::MvBTree(plan) => return Ok(plan.apply(draft)?),
            Self::Load(plan) => return Ok(plan.apply(draft)?),
            Self::BinaryTree(plan) => return Ok(plan.apply(draft)?),
            Self::SkipList(plan) => plan.apply(draft)?,
            Self::Cursor(plan) => plan.apply(draft)?,
            Self::HashTable(plan) => plan.apply(draft)?,
            Self::BTree(plan) => plan.apply(draft)?,
            Self::Stack(plan) => plan.apply(draft)?,
            Self::Queue(plan) => plan.apply(draft)?,
        };
        Ok((answer, None))
    }
}
