//! Stack and queue.
//!
//! ```text
//!   stack   line ─▶ item 3 ─▶ item 2 ─▶ item 1                 an item names the item below it
//!
//!   queue   line ─▶ item 7             head chunk: link, items 0 to 126     tail chunk: link, items 127 to ...
//! ```
//!
//! The line holds everything that changes, under one tag: the number of items, the item that comes next, and the chunks
//! of a queue. A reader reads the line and the item. Chunks are for writers alone, which read memory that nobody else
//! changes, so their words need no tags; each item of a queue says which one it is.

mod cursor;
mod line;
mod queue;
mod stack;

pub use cursor::{Cursor, CursorPlan, CursorState, CursorTravel, ReadCursor, TAKEN_MAX};
pub use line::Peek;
pub(super) use queue::{CHUNK_SIZE, parts_of_chunk};
pub use queue::{ItemOf, Numbered, Queue, QueuePlan, QueueTravel, QueueWalk};
pub use stack::{Stack, StackPlan, StackTravel, StackWalk};
