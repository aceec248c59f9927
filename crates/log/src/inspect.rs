//! Inspection of a segment without a verdict on the pool: everything that recovery would see, and
//! every fault instead of the first.

use stonecast_base::Corruption;
use stonecast_media::Region;

use crate::examine::{Listener, examine};
use crate::format::{LogFormat, SEGMENT_HEADER_UNITS};
use crate::judge::{Loss, Place};
use crate::record::{RecordFault, RecordHeader};
use crate::recovery::SegmentVerdict;
use crate::seal::Seal;
use crate::walk::Found;

/// A thing found in a segment. Positions are bytes from the start of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding<'a> {
    /// The newest seal.
    Seal(Seal),
    /// A published record.
    Record(Found<'a>),
    /// Room without a published record between published ones: remains of writes that never took effect.
    Hole {
        /// The first byte.
        from: u64,
        /// The byte after its last.
        to: u64,
    },
    /// A stamped header whose record is not whole: from a batch that a crash tore, or damage. In
    /// the case of damage there is a fault, too.
    Torn {
        /// The position of the header.
        position: u64,
        /// The header.
        header: RecordHeader,
        /// The fault of the record.
        fault: RecordFault,
    },
    /// Damage that no crash explains, for which recovery refuses the pool.
    Fault(Corruption),
}

/// Passes everything in segment `number` to `report`, in the order of a scan, and returns the
/// verdict that recovery would give if it tolerated every fault. Writes nothing.
pub fn walk_segment(
    region: &dyn Region,
    format: &LogFormat,
    file: &str,
    number: u32,
    report: &mut dyn FnMut(Finding<'_>),
) -> SegmentVerdict {
    let mut inspection = Inspection {
        report,
        end: format.position(number, SEGMENT_HEADER_UNITS),
    };
    examine(
        region,
        Place {
            format,
            file,
            number,
        },
        None,
        &mut inspection,
    )
    .unwrap_or_else(|corruption| unreachable!("an inspection goes on after {corruption}"))
}

struct Inspection<'a> {
    report: &'a mut dyn FnMut(Finding<'_>),
    /// End of the last record.
    end: u64,
}

impl Listener for Inspection<'_> {
    fn records(&mut self, batch: &[Found<'_>]) {
        for found in batch {
            if self.end < found.position {
                (self.report)(Finding::Hole {
                    from: self.end,
                    to: found.position,
                });
            }
            self.end = found.position + found.header.size();
            (self.report)(Finding::Record(*found));
        }
    }

    fn torn(&mut self, position: u64, header: &RecordHeader, fault: RecordFault) {
        (self.report)(Finding::Torn {
            position,
            header: *header,
            fault,
        });
    }

    fn seal(&mut self, seal: &Seal) {
        (self.report)(Finding::Seal(*seal));
    }

    fn loss(&mut self, loss: Loss) -> Result<(), Corruption> {
        (self.report)(Finding::Fault(loss.corruption));
        Ok(())
    }
}
