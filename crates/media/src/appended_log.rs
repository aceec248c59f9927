//! The log as the nodes get it that append to it.

use std::fs::File;
use std::io;
use std::rc::Rc;

use crate::PersistentRegion;
use crate::earlier_writers::{EarlierWriters, Writers};
use crate::mapped_region::{MappedRegion, Writable};
use crate::persistent_mapping::{Mechanism, PersistentMapping};

/// The log as nodes get it that append to it, and the question whether nodes of earlier runs still have it.
pub struct AppendedLog {
    /// The log. Its bytes are persisted through the region of [`Backing::open_log`](crate::Backing::open_log).
    pub region: Rc<dyn PersistentRegion>,
    /// Whether no process that appended in an earlier run can still write to the log. Once the answer is `true`, it
    /// stays `true`.
    pub are_earlier_gone: Box<dyn Fn() -> bool>,
}

impl AppendedLog {
    /// The log of `size` bytes at `offset` of `file`, whose open file description belongs to no client.
    pub(crate) fn map(file: File, offset: u64, size: u64) -> io::Result<Self> {
        let earlier = EarlierWriters::of_other_runs_than(&file, Writers::Nodes)?;
        let memory = MappedRegion::map(file.into(), offset, size, Writable::Yes)?;
        Ok(Self {
            region: Rc::new(PersistentMapping::new(memory, Mechanism::Process)),
            are_earlier_gone: Box::new(move || earlier.are_gone()),
        })
    }
}
