//! The same front-ends and back-end on each provider.

use std::rc::Rc;

use stonecast_media::{
    Backing as _, Ddio, DeclaredPlatform, DirectoryBacking, Durability, LogOptions,
    PersistenceDomain, ReceiveBuffers,
};
use stonecast_structures::shapes::StructureKind;
use stonecast_structures::{
    BackEnd, FrontEndError, LogKey, Medium, PoolGeometry, Service, StructurePool,
};

use crate::sessions::{create, insert, keys};
use crate::world::on_every_provider;

const GEOMETRY: PoolGeometry = PoolGeometry {
    domains: 2,
    slab_size: 1 << 17,
    slab_count: 10,
};
const LEASE_NS: u64 = 10_000_000_000;

/// A pool in a folder, which outlives processes.
fn medium(folder: &tempfile::TempDir) -> Rc<Medium> {
    let platform = DeclaredPlatform {
        persistence_domain: PersistenceDomain::PageFile,
        ddio: Ddio::On,
        receive_buffers: ReceiveBuffers::Dram,
    };
    let durability = Durability::Process;
    let backing = DirectoryBacking::create(&folder.path().join("pool")).expect("a folder");
    let options = LogOptions {
        capacity: GEOMETRY.pool_size(),
        platform,
        durability,
    };
    let region = backing.open_log(options).expect("a log");
    let whole = stonecast_base::Span::new(0, GEOMETRY.pool_size());
    while backing.prepare(whole).expect("there is space") == stonecast_media::Prepared::Pending {
        std::thread::yield_now();
    }
    let medium = Medium::new(region, (platform, durability), LogKey(77), 5);
    Rc::new(medium.expect("a plan"))
}

/// Needs the trimming of the log, and the slabs that a writer gets while its tenure lasts.
#[test]
fn a_domain_grows_is_read_and_changes_its_writer_on_every_provider() {
    on_every_provider(|[server, one, other]| async move {
        let folder = tempfile::tempdir().expect("a folder");
        let medium = medium(&folder);
        let made = StructurePool::create(medium.clone(), GEOMETRY).await;
        drop(made.expect("the medium is sound"));
        let of = (&*server.address, LEASE_NS);
        let (port, runtime) = (server.port.clone(), server.runtime.clone());
        let service = Service::start(port, runtime.clone(), medium, of).await;
        let mut service = service.expect("the pool opens");
        runtime.spawn(Box::pin(async move {
            service.run().await.expect("the back-end serves");
        }));
        let first = BackEnd::connect(&one.port, &server.address).await.unwrap();
        let second = BackEnd::connect(&other.port, &server.address)
            .await
            .unwrap();
        let domain = first.create_domain(1).await.expect("there is room");
        let mut writer = first.writer(domain).await.expect("the domain is free");
        let tree = create(&mut writer, StructureKind::BTree).await;
        for key in 0..4_000 {
            insert(&mut writer, tree, key).await;
            if key % 50 == 49 {
                writer.publish().await.expect("the tenure lasts");
            }
        }
        assert_eq!(keys(&second, domain, tree, 4_100).await.len(), 4_000);
        let held = second.writer(domain).await.err().expect("it has a writer");
        assert!(
            matches!(held, FrontEndError::Held { tenure: 1, .. }),
            "{held}"
        );
        writer.release().await.expect("the tenure lasts");
        let mut successor = loop {
            match second.writer(domain).await {
                Ok(writer) => break writer,
                Err(FrontEndError::Held { .. }) => runtime.sleep(100_000).await,
                Err(error) => panic!("{error}"),
            }
        };
        insert(&mut successor, tree, 4_000).await;
        successor.publish().await.expect("the tenure lasts");
        assert_eq!(keys(&first, domain, tree, 4_100).await.len(), 4_001);
    });
}
