//! Clusters that meet all mishaps: deaths, pauses, partitions, outages of the store, late and lost answers of the
//! store, and clocks that drift as far as is declared. A seed decides all of it.
//!
//! During a run:
//!
//! - One node leads a group at a time, and only a node in sync takes the lead. Each start of a primary has a new term.
//! - No reader trusts a term while another term leads, and no read counts if it found another term.
//! - A removed node is removed from all groups, and a pause removes no node.
//! - A node is named in sync only for the join that filled it. A lost copy stops counting with the start of its node.
//!
//! After a run every group is led again.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use rand::RngExt as _;
use stonecast_base::Nanoseconds;
use stonecast_cluster::{ChangeError, Configuration, Epoch, NodeName, Refusal, Subject, Timing};
use stonecast_config_sim::ServiceFaults;
use stonecast_fabric::Runtime;
use stonecast_member::{Member, MemberError};

use crate::scene::{MS, Place, PolicyWords, Scene, Shape};

/// A lease of 10 ms on clocks that may drift by a twentieth.
const DRIFTING: Timing = Timing {
    duration_ns: 10 * MS,
    drift_ppm: 50_000,
    tick_ns: 1_000,
};
const REMOVE_AFTER_NS: Nanoseconds = 60 * MS;
/// Pauses are longer than a lease, and shorter than the silence after which a node is removed.
const PAUSE_NS: std::ops::Range<Nanoseconds> = 12 * MS..35 * MS;
const MISHAPS: u32 = 14;

/// A node that joins a group, and the number of the join.
type Join = (Subject, NodeName, Epoch);

/// Counts of a run.
#[derive(Debug, Default)]
pub struct Seen {
    pub changes: u64,
    pub removals: u64,
    pub joins: u64,
    pub reads: u64,
    pub losses: u64,
}

/// The oracle of configurations: it judges each new configuration.
struct Chronicle {
    last: Configuration,
    /// The end of each node's last trouble for which the node may be removed.
    trouble: BTreeMap<NodeName, Nanoseconds>,
    /// The joins in which a node got everything.
    filled: Rc<RefCell<BTreeSet<Join>>>,
    seen: Seen,
}

impl Chronicle {
    fn note(&mut self, next: Configuration, places: &[Place], now: Nanoseconds) {
        let last = std::mem::replace(&mut self.last, next);
        let next = &self.last;
        self.seen.changes += 1;
        let writer = &next.attempt.writer;
        let starts = |place: &&Place| {
            let incarnation = |of: &Configuration| of.nodes[&place.name].incarnation;
            incarnation(&last) < incarnation(next)
        };
        let started = places.iter().find(starts);
        let started_as = |name: &NodeName| started.is_some_and(|place| place.name == *name);
        for (before, after) in last.groups.iter().zip(&next.groups) {
            let subject = &after.subject;
            assert!(
                before.in_sync.contains(&after.primary),
                "at {now} {} leads {subject}, and was not in sync: {before:?}",
                after.primary
            );
            for joined in after.in_sync.difference(&before.in_sync) {
                self.seen.joins += 1;
                let join = (subject.clone(), joined.clone(), before.joining[joined]);
                assert!(
                    self.filled.borrow().contains(&join),
                    "at {now} {joined} is in sync with {subject}, and join {} has not filled it",
                    join.2
                );
            }
            assert!(
                !started_as(&before.primary) || after.term == next.epoch,
                "at {now} {} starts and leads {subject} in its old term",
                before.primary
            );
            let removed = before.in_sync.difference(&after.in_sync);
            if let Some(place) = started {
                let is_lost = place.lost.borrow().contains(subject);
                self.seen.losses += u64::from(is_lost);
                assert!(
                    !is_lost || !after.has_copy(&place.name),
                    "at {now} {} has lost {subject} and is registered as a copy",
                    place.name
                );
                let leaves = is_lost && before.in_sync.contains(&place.name);
                assert!(removed.eq(leaves.then_some(&place.name)), "{after:?}");
                continue;
            }
            for removed in removed {
                self.seen.removals += 1;
                let kept = next
                    .groups
                    .iter()
                    .find(|group| group.in_sync.contains(removed) && group.in_sync.len() > 1);
                assert!(
                    kept.is_none(),
                    "at {now} {removed} is removed from {subject} and stays in {kept:?}"
                );
                let recent = |node: &str| {
                    let name: NodeName = node.parse().unwrap();
                    let at = self.trouble.get(&name);
                    at.is_some_and(|at| now < at + 5 * REMOVE_AFTER_NS)
                };
                assert!(
                    recent(removed.as_str()) || recent(writer),
                    "at {now} {writer} removed {removed}, which had no trouble but pauses"
                );
            }
        }
        // From here on the pool keeps nothing of these groups.
        if let Some(place) = started {
            place.lost.take();
        }
    }
}

/// The state of a run.
struct Run {
    scene: Scene,
    chronicle: RefCell<Chronicle>,
    /// Dead nodes, and the time at which each starts again.
    dead: RefCell<BTreeMap<usize, Nanoseconds>>,
}

impl Run {
    fn new(seed: u64) -> Self {
        let nodes = 3 + (seed % 4) as usize;
        let shape = Shape {
            nodes,
            policy: PolicyWords {
                replicas: if seed % 5 == 4 { 2 } else { 3 },
                shards: 3,
                lease: DRIFTING,
                remove_after_ns: REMOVE_AFTER_NS,
            },
            drift_ppm: 50_000,
        };
        let scene = Scene::settled(shape, seed);
        scene.read(3);
        if seed % 2 == 1 {
            scene.service.set_faults(ServiceFaults::drawn(seed));
        }
        let chronicle = Chronicle {
            last: scene.stored(),
            trouble: BTreeMap::new(),
            filled: Rc::default(),
            seen: Seen::default(),
        };
        Self {
            scene,
            chronicle: RefCell::new(chronicle),
            dead: RefCell::default(),
        }
    }

    fn draw(&self, range: std::ops::Range<Nanoseconds>) -> Nanoseconds {
        self.scene.random.borrow_mut().random_range(range)
    }

    /// Lets time pass, notes configurations, and starts dead nodes again.
    fn run_until(&self, duration: Nanoseconds, mut done: impl FnMut() -> bool) -> bool {
        let mut revision = None;
        self.scene.run_until(duration, || {
            let now = self.scene.world.now();
            let stored = self
                .scene
                .service
                .value()
                .expect("there is a configuration");
            if revision.replace(stored.revision) != Some(stored.revision) {
                let next = Configuration::decode(&stored.bytes).expect("a configuration");
                if next.epoch > self.chronicle.borrow().last.epoch {
                    let mut chronicle = self.chronicle.borrow_mut();
                    chronicle.note(next, &self.scene.places, now);
                }
            }
            let due = |(&index, &at): (&usize, &Nanoseconds)| (at <= now).then_some(index);
            let due = self.dead.borrow().iter().find_map(due);
            if let Some(index) = due {
                self.dead.borrow_mut().remove(&index);
                self.trouble(index, 0);
                self.scene.start(index);
            }
            self.mend();
            done()
        })
    }

    /// An operator mends the pools that had the only copy of a group, and starts their nodes.
    fn mend(&self) {
        for (index, place) in self.scene.places.iter().enumerate() {
            let is_refused = matches!(
                &*place.end.borrow(),
                Some(MemberError::NotRegistered {
                    error: ChangeError::Refused(Refusal::SoleCopy { .. }),
                    ..
                })
            );
            if is_refused {
                place.lost.take();
                self.scene.kill(index);
                self.scene.start(index);
            }
        }
    }

    /// Notes that the node is in trouble from now on, for `duration`.
    fn trouble(&self, index: usize, duration: Nanoseconds) {
        let until = self.scene.world.now() + duration;
        // Messages that were sent before come late, and connections break late.
        let name = self.scene.places[index].name.clone();
        self.chronicle.borrow_mut().trouble.insert(name, until);
    }

    fn mishap(&self) {
        let count = self.scene.places.len() as u64;
        let index = self.draw(0..count) as usize;
        match self.draw(0..15) {
            0..3 => {
                let alive = count as usize - self.dead.borrow().len();
                if self.scene.runs(index) && alive > 2 {
                    self.trouble(index, 0);
                    self.scene.kill(index);
                    self.lose(index);
                    let back = self.scene.world.now() + self.draw(2 * MS..150 * MS);
                    self.dead.borrow_mut().insert(index, back);
                }
            }
            3..5 => {
                // Two pauses in a row would be one longer pause.
                let rested = self.scene.places[index].paused_until.get() + 20 * MS;
                if self.scene.world.now() > rested {
                    self.scene.pause(index, self.draw(PAUSE_NS));
                }
            }
            5 => {
                let duration = self.draw(PAUSE_NS.end..200 * MS);
                self.trouble(index, duration);
                self.scene.pause(index, duration);
            }
            6 => {
                let duration = self.draw(5 * MS..200 * MS);
                self.trouble(index, duration);
                self.scene.cut_off(index, duration);
            }
            7 => {
                let duration = self.draw(5 * MS..150 * MS);
                self.trouble(index, duration);
                let one_way = self.draw(0..2) == 0;
                self.scene.isolate(index, duration, one_way);
            }
            8 => self
                .scene
                .cut_from_store(index, self.draw(5 * MS..100 * MS)),
            9 => self.scene.service.fail_over_for(self.draw(5 * MS..80 * MS)),
            10..12 => self.move_lead(index),
            _ => self.join(),
        }
    }

    /// Lets the pool lose copies, which its node finds at its next start.
    fn lose(&self, index: usize) {
        let subjects = self.scene.subjects().into_iter();
        let lost = subjects.filter(|_| self.draw(0..6) == 0);
        self.scene.places[index].lost.borrow_mut().extend(lost);
    }

    /// Lets an operator make a node lead a group.
    fn move_lead(&self, index: usize) {
        let stored = self.scene.stored();
        let name = self.scene.places[index].name.clone();
        let mut groups = stored.groups.iter();
        let group = groups.find(|group| group.in_sync.contains(&name) && group.primary != name);
        if let (Some(group), Some(member)) = (group, self.scene.awake(index)) {
            let subject = group.subject.clone();
            let process = self.scene.places[index].process.borrow();
            let runtime = process.as_ref().expect("it is awake").runtime();
            runtime.spawn(Box::pin(async move {
                let lead = |present: &Configuration| present.take_lead(&subject, &name).map(Some);
                // A node that has lost its copy meanwhile is refused.
                let _ = member.change(lead).await;
            }));
        }
    }

    /// Lets the leader of a group without all its copies fill a new copy.
    fn join(&self) {
        let stored = self.scene.stored();
        for group in &stored.groups {
            let leader = self.scene.leaders(&group.subject).first().copied();
            let Some((leader, _)) = leader else { continue };
            let joiner = self.scene.places.iter().enumerate().find(|(index, place)| {
                self.scene.runs(*index) && group.copies().all(|copy| *copy != place.name)
            });
            let (Some(member), Some((_, joiner))) = (self.scene.awake(leader), joiner) else {
                continue;
            };
            let process = self.scene.places[leader].process.borrow();
            let runtime = process.as_ref().expect("it leads").runtime();
            let filling = self.draw(MS..40 * MS);
            let fill = fill(
                runtime.clone(),
                member,
                group.subject.clone(),
                joiner.name.clone(),
                filling,
                self.chronicle.borrow().filled.clone(),
            );
            runtime.spawn(Box::pin(fill));
            return;
        }
    }
}

/// Makes `joiner` a copy, as a store does.
async fn fill(
    runtime: Rc<dyn Runtime>,
    member: Rc<Member>,
    subject: Subject,
    joiner: NodeName,
    filling: Nanoseconds,
    filled: Rc<RefCell<BTreeSet<Join>>>,
) {
    let begun = member
        .change(|present| present.begin_join(&subject, &joiner).map(Some))
        .await;
    let Ok(begun) = begun else { return };
    let group = begun.group(&subject).unwrap();
    let (join, term) = (group.joining[&joiner], group.term);
    runtime.sleep(filling).await;
    filled
        .borrow_mut()
        .insert((subject.clone(), joiner.clone(), join));
    for _ in 0..30 {
        let joined = member.finish_join(&subject, (&joiner, join), term).await;
        if joined != Ok(false) {
            break;
        }
        runtime.sleep(MS).await;
    }
}

/// Runs one cluster through its mishaps.
pub fn run(seed: u64) -> Seen {
    let run = Run::new(seed);
    for _ in 0..MISHAPS {
        run.mishap();
        run.run_until(run.draw(2 * MS..40 * MS), || false);
    }
    run.scene.world.heal();
    run.scene.service.set_faults(ServiceFaults::default());
    // The effects of a partition last for a while.
    let all_start = 200 * MS;
    run.run_until(all_start, || false);
    let led = run.run_until(2_000 * MS, || run.scene.all_led());
    assert!(led, "every group is led again: {:?}", run.scene.stored());
    let mut seen = std::mem::take(&mut run.chronicle.borrow_mut().seen);
    seen.reads = run.scene.counted_reads();
    seen
}

/// Number of seeds of the unchanged member.
const SEEDS: u64 = 40;

#[test]
fn one_node_leads_a_group_at_a_time_whatever_happens_and_every_group_is_led_in_the_end() {
    let mut all = Seen::default();
    for seed in 0..SEEDS {
        println!("seed {seed}");
        let seen = run(seed);
        all.changes += seen.changes;
        all.removals += seen.removals;
        all.joins += seen.joins;
        all.reads += seen.reads;
        all.losses += seen.losses;
    }
    println!("{SEEDS} seeds: {all:?}");
    assert!(
        all.changes > 5 * SEEDS && all.removals > SEEDS / 2 && all.joins > SEEDS / 4,
        "{all:?}"
    );
    assert!(all.reads > 10 * SEEDS && all.losses > SEEDS / 4, "{all:?}");
}
