//! Primaries that are removed and do not hear of their removal.

use crate::configuration::Group;
use crate::world::World;

impl World {
    /// Removes the primary of the configuration, which hears nothing of it and answers clients as long as its lease
    /// holds.
    pub(crate) fn isolate_primary(&mut self, shard: u32) {
        let group = self.configuration.group(shard);
        let (old, term) = (group.primary, group.term);
        let leads = self.nodes[old].runs() && self.nodes[old].leads(shard) == Some(term);
        let is_heir = |&node: &usize| node != old && self.nodes[node].runs();
        let heir = group.in_sync.iter().copied().find(is_heir);
        let Some(heir) = heir.filter(|_| leads && group.in_sync.len() > 2) else {
            return;
        };
        self.configuration.name_primary(shard, heir);
        let leave = |group: &mut Group| _ = group.in_sync.remove(&old);
        self.configuration.change(shard, leave);
        self.nodes[old].is_isolated = true;
        self.outcome.befell("partition");
        self.show(format!(
            "n{heir} takes shard {shard} over from n{old}, which hears nothing"
        ));
    }
}
