//! Heirs: from the configuration that names them until they serve.

use stonecast_backup::{Intake, Silence};
use stonecast_base::{Nanoseconds, mutant};
use stonecast_cluster::{NodeName, Subject, Term};
use stonecast_member::Member;
use stonecast_replication::{Consent, Fence, Incomplete, LeaseSays, Lineage, Point, Step};

use crate::fences::Fences;
use crate::lost::gap;
use crate::node::Shared;
use crate::shard::{Leads, Role, Shard, TakesOver};
use crate::state::{Keeping, State, Why};
use crate::store::Store;

/// The state of the lease of `subject` in `term`.
pub fn lease_says(member: &Member, subject: &Subject, term: Term, now: Nanoseconds) -> LeaseSays {
    match member.lease(subject) {
        Some((of, end)) if of == term && now < end => LeaseSays::Holds,
        _ => LeaseSays::Over,
    }
}

/// Takes all steps that are possible now, for each shard that this node takes over.
pub fn step_heirs<S: Store>(state: &mut State<S::Call>, shared: &Shared<S>, intake: &mut Intake) {
    for number in state.numbers() {
        let fences = &mut state.fences;
        let shard = state.shards.get_mut(&number).expect("it was listed");
        let Role::TakesOver(heir) = &mut shard.role else {
            continue;
        };
        let term = heir.takeover.term();
        heir.hear(shard.consents.present());
        heir.keep_out(fences, intake);
        let now = shared.runtime.now();
        let lease = lease_says(&shared.member, &shard.subject, term, now);
        if lease == LeaseSays::Holds {
            // The node has the grants of all copies in sync, so each earlier lease is over.
            heir.takeover.leases_over();
        }
        if heir.takeover.next() == Step::Read {
            if let Err(Incomplete { found, needed }) = heir.takeover.decide() {
                shard.step_down();
                let lost = (term, gap(found, needed));
                state.lost.insert((number, state.me.clone()), lost);
                continue;
            }
            shard.close_streams(intake);
        }
        let Role::TakesOver(heir) = &mut shard.role else {
            unreachable!("it goes on");
        };
        match heir.takeover.next() {
            Step::Keep(history) => state.keepings.push(Keeping {
                shard: number,
                history,
                why: Why::Heir,
            }),
            // With a consent, the shard may be ready before the first grant.
            Step::Serve if lease == LeaseSays::Holds => serve(state, shared, number),
            // Each turn asks for fences and leases, and links settle.
            _ => {}
        }
    }
}

/// Notes that the history of this heir is durable here.
pub fn kept_as_heir<C>(state: &mut State<C>, number: u32, history: &Lineage) {
    if let Some(heir) = heir(state, number)
        && heir.takeover.next() == Step::Keep(history.clone())
    {
        heir.takeover.kept();
    }
}

/// Notes that a copy has all of the history of `term`.
pub fn hear_confirmed<C>(state: &mut State<C>, from: &NodeName, number: u32, term: Term) {
    if let Some(heir) = heir(state, number) {
        heir.takeover.confirmed(from, term);
    }
}

fn heir<C>(state: &mut State<C>, number: u32) -> Option<&mut TakesOver> {
    match &mut state.shards.get_mut(&number)?.role {
        Role::TakesOver(heir) => Some(heir),
        _ => None,
    }
}

fn serve<S: Store>(state: &mut State<S::Call>, shared: &Shared<S>, number: u32) {
    let min_copies = state.configuration.policy.min_copies.into();
    let shard = state.shards.get_mut(&number).expect("it was listed");
    let role = std::mem::replace(&mut shard.role, Role::Absent);
    let Role::TakesOver(heir) = role else {
        unreachable!("an heir serves");
    };
    let (history, _) = heir.takeover.history();
    let mut digested = 0;
    let Shard { bodies, .. } = shard;
    let primary = heir.takeover.serve(min_copies, |entry| {
        let body = bodies.remove(entry.point());
        let body = body.expect("a body is kept until it is digested");
        shared.store.digest(&entry, &body);
        digested += 1;
    });
    shard.bodies.clear();
    let (term, last) = (primary.term(), primary.last());
    shard.role = Role::Leads(Box::new(Leads {
        primary,
        history,
        joins: Default::default(),
        handover: None,
        goes_on_until: 0,
        read_until: 0,
        written_at: shared.runtime.now(),
        unsettled: Default::default(),
        digested,
    }));
    shared.store.serves(number, term, last);
}

impl TakesOver {
    /// Takes a consent when everything that its primary has settled has been found. The last entries may be durable in
    /// the memory of this node, and the search may reach them after the letter has come. Until then, the heir acts as
    /// without a consent.
    fn hear(&mut self, consent: Option<(Term, Point)>) {
        if let Some((to, last)) = consent
            && to == self.takeover.term()
            && (self.takeover.copy().end() >= last || mutant!(ConsentBeforeSearch))
        {
            self.takeover.consented(Consent { to });
        }
    }

    /// Keeps out all peers that may append in earlier terms, until no entry of theirs can land. A
    /// peer that connects again sends nothing before this node answers
    /// that it follows, and an heir does not follow.
    fn keep_out(&mut self, fences: &mut Fences, intake: &mut Intake) {
        let Step::Quiesce(open) = self.takeover.next() else {
            return;
        };
        for peer in &open {
            match fences.ask(intake, peer) {
                Silence::Silent => self.takeover.fenced(peer, Fence::Quiesced),
                Silence::Doubtful => self.takeover.fenced(peer, Fence::Unquiesced),
                Silence::UnderWay => {}
            }
        }
    }
}
