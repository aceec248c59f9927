//! The groups that a node leads, and the stage of each.
//!
//! ```text
//!   configuration names the node --> Waiting --lease of all copies in sync--> Leading --lease over--> Resigned
//!                                       |                                        |                        |
//!                                       '--------- configuration names another, or another term ---------'
//! ```
//!
//! A node that resigned asks for no further lease in that term, since a lease would keep others from standing for heir.
//! The node stays a copy, and may itself stand for heir.

use std::collections::BTreeMap;

use stonecast_base::{Nanoseconds, mutant};
use stonecast_cluster::{
    Asked, Configuration, Group, NodeName, PrimaryLease, ReaderOffer, Subject, Term, Timing,
};

use crate::event::MemberEvent;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Waiting,
    Leading,
    Resigned,
}

#[derive(Clone, Debug)]
struct Led {
    term: Term,
    lease: PrimaryLease,
    stage: Stage,
}

impl Led {
    fn end(&self) -> Nanoseconds {
        match mutant!(LeaseEndIgnored) && self.stage == Stage::Leading {
            true => Nanoseconds::MAX,
            false => self.lease.end(),
        }
    }
}

/// The groups that a node leads, and the stage of each.
#[derive(Clone, Debug, Default)]
pub(crate) struct Leads {
    led: BTreeMap<Subject, Led>,
}

impl Leads {
    /// Enters `configuration`. A lease continues in the same term. Returns the events of groups that the node stopped
    /// leading.
    pub fn enter(&mut self, node: &NodeName, configuration: &Configuration) -> Vec<MemberEvent> {
        let mut before = std::mem::take(&mut self.led);
        let epoch = configuration.epoch;
        let led = configuration.groups.iter();
        for group in led.filter(|group| group.primary == *node) {
            let known = before.remove(&group.subject);
            let led = match known.filter(|led| led.term == group.term) {
                Some(mut led) => {
                    led.lease.enter(epoch, group);
                    led
                }
                None => {
                    let mut lease = PrimaryLease::new(epoch, group.in_sync.iter().cloned());
                    lease.enter(epoch, group);
                    Led {
                        term: group.term,
                        lease,
                        stage: Stage::Waiting,
                    }
                }
            };
            self.led.insert(group.subject.clone(), led);
        }
        let deposed = before
            .into_iter()
            .filter(|(_, led)| led.stage == Stage::Leading);
        let resigned = |(subject, Led { term, .. })| MemberEvent::Resigned { subject, term };
        deposed.map(resigned).collect()
    }

    /// Resigns in groups whose lease is over, and leads in groups whose lease is complete.
    pub fn advance(&mut self, now: Nanoseconds, events: &mut impl Extend<MemberEvent>) {
        for (subject, led) in &mut self.led {
            let holds = now < led.end();
            let (subject, term) = (subject.clone(), led.term);
            match led.stage {
                Stage::Waiting if holds => {
                    led.stage = Stage::Leading;
                    events.extend([MemberEvent::Leads { subject, term }]);
                }
                Stage::Leading if !holds => {
                    led.stage = Stage::Resigned;
                    events.extend([MemberEvent::Resigned { subject, term }]);
                }
                _ => {}
            }
        }
    }

    /// Returns whether the node has resigned in this term of a group that it leads by the configuration.
    pub fn has_resigned(&self, group: &Group) -> bool {
        let led = self.led.get(&group.subject);
        led.is_some_and(|led| led.stage == Stage::Resigned)
    }

    /// Notes that a copy granted the lease of `subject`.
    pub fn granted(&mut self, subject: &Subject, asked: &Asked, held_ns: Nanoseconds) {
        let led = self.led.get_mut(subject);
        if let Some(led) = led.filter(|led| led.stage != Stage::Resigned) {
            led.lease.granted(asked, held_ns);
        }
    }

    /// Admits `joiner` to the lease of `subject`; see [`PrimaryLease::admit`]. Returns false if the
    /// node does not lead.
    pub fn admit(&mut self, subject: &Subject, joiner: &NodeName, now: Nanoseconds) -> bool {
        let led = self.led.get_mut(subject);
        led.filter(|led| led.stage == Stage::Leading)
            .is_some_and(|led| led.lease.admit(joiner, now))
    }

    /// Term and end of the lease under which the node leads `subject`.
    pub fn lease(&self, subject: &Subject) -> Option<(Term, Nanoseconds)> {
        let led = self.led.get(subject)?;
        (led.stage == Stage::Leading).then(|| (led.term, led.end()))
    }

    /// The offer to a reader of `subject`.
    pub fn offer(
        &self,
        subject: &Subject,
        timing: Timing,
        now: Nanoseconds,
    ) -> Option<(Term, ReaderOffer)> {
        let led = self.led.get(subject)?;
        let leads = led.stage == Stage::Leading && now < led.end();
        let offer = led.lease.offer(timing, now).filter(|_| leads)?;
        Some((led.term, offer))
    }

    /// The earliest end of the leases under which the node leads.
    pub fn first_end(&self) -> Option<Nanoseconds> {
        let leading = self.led.values().filter(|led| led.stage == Stage::Leading);
        leading.map(Led::end).min()
    }
}
