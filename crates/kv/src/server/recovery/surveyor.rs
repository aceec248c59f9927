//! The listener to a survey of a pool.

use stonecast_base::Corruption;

/// The listener to a survey.
pub(crate) trait Surveyor {
    /// The bytes of the log below this position were looked at.
    fn progress(&mut self, _position: u64) {}
    /// An opening refuses the pool because of this segment. If the listener returns an error, the survey ends with that
    /// error; otherwise the survey leaves the segment out.
    fn refuse(&mut self, number: u32, corruption: Corruption) -> Result<(), Corruption>;
}
