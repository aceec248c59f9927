//! The history of a shard as a value: which entries count, and which are old or void.
//!
//! ```text
//!   term      cluster, epoch, term: the numbers of a configuration
//!   point     term and version: names an entry of a shard
//!   lineage   open term, floor, and where closed terms were cut: judges every point
//! ```
//!
//! The log keeps a [`Lineage`] durably for each shard, and judges by it every entry in its segments. The rules of
//! replication change lineages. Log and rules do not know each other, so the value has a crate of its own, without
//! input or output.
//!
//! # Example
//!
//! ```
//! use stonecast_lineage::{Epoch, Judgement, Lineage, Nonce, Point};
//!
//! let mut lineage = Lineage::new(Nonce::from_u128(7));
//! lineage.term = Epoch(4);
//! lineage.cuts.insert(Epoch(2), 9);
//! let judge = |term, version| lineage.judge(Point { term: Epoch(term), version });
//! assert_eq!(judge(2, 9), Judgement::Counts);
//! assert_eq!(judge(2, 10), Judgement::Void);
//! assert_eq!(judge(3, 1), Judgement::Void);
//! assert_eq!(judge(5, 1), Judgement::Later);
//! ```
#![forbid(unsafe_code)]

mod lineage;
mod point;
mod term;

pub use lineage::{Judgement, Lineage};
pub use point::Point;
pub use term::{Epoch, Nonce, Term};
