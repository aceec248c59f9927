//! The cost of a batch of a deciding server: exactly its plan's steps.

use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use stonecast_base::Span;
use stonecast_fabric_sim::{MachineOptions, MachineProfile, SimBacking, Survivor, World};
use stonecast_media::{
    Backing as _, Ddio, DeclaredPlatform, DirectoryBacking, Durability, LogOptions, PersistCounts,
    PersistenceDomain, PersistentRegion, ReceiveBuffers,
};
use stonecast_persist::execute::Commit;

const CAPACITY: u64 = 1 << 20;
/// Three updates: four lines, one line, and eight bytes of another.
const BATCH: [Span; 3] = [Span::new(0, 200), Span::new(4096, 64), Span::new(8200, 8)];

fn options(persistence_domain: PersistenceDomain, durability: Durability) -> LogOptions {
    LogOptions {
        capacity: CAPACITY,
        platform: DeclaredPlatform {
            persistence_domain,
            ddio: Ddio::On,
            receive_buffers: ReceiveBuffers::Dram,
        },
        durability,
    }
}

fn chosen(region: &dyn PersistentRegion, options: LogOptions) -> Commit {
    Commit::choose(options.platform, options.durability, region.means()).unwrap()
}

/// The cost of committing the batch in the simulated world.
fn cost(persistence_domain: PersistenceDomain, durability: Durability) -> PersistCounts {
    let world = World::new(1);
    let options = options(persistence_domain, durability);
    let machine = world.machine(MachineOptions {
        platform: options.platform,
        ..MachineOptions::new(MachineProfile::MODERN)
    });
    let module = world.module(machine, Survivor::default());
    let region = SimBacking::new(&module).open_log(options).unwrap();
    let commit = chosen(&*region, options);
    for span in BATCH {
        region.write(span.offset, &vec![7; span.size as usize]);
    }
    let before = region.persist_counts();
    let _persisted = world.block_on(commit.persist(&*region, &BATCH)).unwrap();
    let after = region.persist_counts();
    PersistCounts {
        write_backs: after.write_backs - before.write_backs,
        fences: after.fences - before.fences,
        syncs: after.syncs - before.syncs,
    }
}

/// Needs the write-back to end the earlier copies, too: otherwise each batch costs one more fence.
#[test]
fn a_batch_costs_each_line_once_and_one_fence_or_sync_in_total() {
    let counts = |write_backs, fences, syncs| PersistCounts {
        write_backs,
        fences,
        syncs,
    };
    for (domain, durability, expected) in [
        (PersistenceDomain::Dmp, Durability::Power, counts(6, 1, 0)),
        (PersistenceDomain::Mhp, Durability::Power, counts(0, 1, 0)),
        (PersistenceDomain::Wsp, Durability::Power, counts(0, 1, 0)),
        (
            PersistenceDomain::PageFile,
            Durability::Power,
            counts(0, 0, 1),
        ),
        (
            PersistenceDomain::Volatile,
            Durability::Process,
            counts(0, 0, 0),
        ),
    ] {
        assert_eq!(
            cost(domain, durability),
            expected,
            "{domain} {durability:?}"
        );
    }
}

/// Every batch of puts over shared memory takes this path.
#[test]
fn a_batch_in_memory_that_outlives_processes_takes_no_allocation() {
    let folder = tempfile::tempdir().unwrap();
    let options = options(PersistenceDomain::Volatile, Durability::Process);
    let backing = DirectoryBacking::create(&folder.path().join("log")).unwrap();
    let region: Rc<dyn PersistentRegion> = backing.open_log(options).unwrap();
    let commit = chosen(&*region, options);
    let allocated = allocation_counter::measure(|| {
        let persist = pin!(commit.persist(&*region, &BATCH));
        let done = persist.poll(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(done, Poll::Ready(Ok(_))));
    });
    assert_eq!(allocated.count_total, 0);
    assert_eq!(region.persist_counts(), PersistCounts::default());
}
