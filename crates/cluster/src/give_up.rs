//! The end of a group's content: its only complete copy is permanently lost.
//!
//! Only an operator gives up a group: every other change keeps a complete copy.

use std::collections::BTreeSet;

use crate::changes::Refusal;
use crate::configuration::{Configuration, Subject};
use crate::name::NodeName;

impl Configuration {
    /// Gives up every acknowledged write of `subject`: the only node in sync, `lost`, never comes back with its copy.
    /// `heir`, which keeps nothing of the group, leads the group from here on, and the group is empty. Joins of the
    /// group end, since no content is left for them.
    ///
    /// The change is refused if a node other than `lost` is in sync, because then a complete copy is known.
    ///
    /// The configuration cannot know whether `lost` is gone, so the caller answers for one fact: no process serves the
    /// pool. A sole copy grants its own lease, so such a process would lead the group beside `heir` until it hears of
    /// this change. If the pool comes back later, it is no copy of the group.
    pub fn give_up(
        &self,
        subject: &Subject,
        lost: &NodeName,
        heir: &NodeName,
    ) -> Result<Self, Refusal> {
        self.node(heir)?;
        self.with_group(subject, |group, epoch| {
            if !group.in_sync.contains(lost) {
                return Err(Refusal::NotInSync {
                    node: lost.clone(),
                    subject: subject.clone(),
                });
            }
            if let Some(other) = group.in_sync.iter().find(|name| *name != lost) {
                return Err(Refusal::CopyIsKnown {
                    node: other.clone(),
                    subject: subject.clone(),
                });
            }
            if group.has_copy(heir) {
                return Err(Refusal::HasCopy {
                    node: heir.clone(),
                    subject: subject.clone(),
                });
            }
            group.primary = heir.clone();
            group.term = epoch;
            group.in_sync = BTreeSet::from([heir.clone()]);
            group.joining.clear();
            group.leaving.clear();
            Ok(())
        })
    }
}
