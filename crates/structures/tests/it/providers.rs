//! The same front-ends and back-end on each provider.

use std::rc::Rc;

use stonecast_fabric::Placing;
use stonecast_media::{
    Backing as _, Ddio, DeclaredPlatform, DirectoryBacking, Durability, LogOptions,
    PersistenceDomain, PersistentRegion, ReceiveBuffers,
};
use stonecast_structures::shapes::StructureKind;
use stonecast_structures::shapes::btree::Seek;
use stonecast_structures::{
    BackEnd, FrontEndError, FrontEndName, Key as _, LogKey, Medium, MirrorLink, MirrorServer,
    PoolGeometry, Service, StructurePool, StructureReader, Verb, Writer,
};

use crate::sessions::{create, insert, keys, operation};
use crate::world::{Node, on_every_provider};

const GEOMETRY: PoolGeometry = PoolGeometry {
    domains: 2,
    slab_size: 1 << 17,
    slab_count: 10,
};
const LEASE_NS: u64 = 10_000_000_000;

const PLATFORM: DeclaredPlatform = DeclaredPlatform {
    persistence_domain: PersistenceDomain::PageFile,
    ddio: Ddio::On,
    receive_buffers: ReceiveBuffers::Dram,
};

/// The pool `name` in `region`, which outlives processes.
fn of_region(region: &Rc<dyn PersistentRegion>, name: u128) -> Medium {
    let declared = (PLATFORM, Durability::Process);
    let medium = Medium::new(region.clone(), declared, LogKey(77), name);
    medium.expect("a plan")
}

/// A pool in a folder, and its memory.
fn medium(folder: &tempfile::TempDir) -> (Rc<Medium>, Rc<dyn PersistentRegion>) {
    let backing = DirectoryBacking::create(&folder.path().join("pool")).expect("a folder");
    let options = LogOptions {
        capacity: GEOMETRY.pool_size(),
        platform: PLATFORM,
        durability: Durability::Process,
    };
    let region = backing.open_log(options).expect("a log");
    let whole = stonecast_base::Span::new(0, GEOMETRY.pool_size());
    while backing.prepare(whole).expect("there is space") == stonecast_media::Prepared::Pending {
        std::thread::yield_now();
    }
    (Rc::new(of_region(&region, 5)), region)
}

/// Serves a new pool in `medium`.
async fn serve(server: &Node, medium: Rc<Medium>) {
    let made = StructurePool::create(medium.clone(), GEOMETRY).await;
    drop(made.expect("the medium is sound"));
    let of = (&*server.address, LEASE_NS);
    let (port, runtime) = (server.port.clone(), server.runtime.clone());
    let service = Service::start(port, runtime.clone(), medium, of).await;
    let mut service = service.expect("the pool opens");
    runtime.spawn(Box::pin(async move {
        service.run().await.expect("the back-end serves");
    }));
}

/// Needs the trimming of the log, and the slabs that a writer gets while its tenure lasts.
#[test]
fn a_domain_grows_is_read_and_changes_its_writer_on_every_provider() {
    on_every_provider(|[server, one, other]| async move {
        let folder = tempfile::tempdir().expect("a folder");
        let (medium, _) = medium(&folder);
        serve(&server, medium).await;
        let first = BackEnd::connect(&one.port, &server.address).await.unwrap();
        let second = BackEnd::connect(&other.port, &server.address)
            .await
            .unwrap();
        first.introduce_as(FrontEndName::of("the first"));
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
        let words = format!("domain {domain} has a writer: tenure 1 of the first");
        assert_eq!(held.to_string(), words);
        writer.release().await.expect("the tenure lasts");
        let mut successor = loop {
            match second.writer(domain).await {
                Ok(writer) => break writer,
                Err(FrontEndError::Held { .. }) => server.runtime.sleep(100_000).await,
                Err(error) => panic!("{error}"),
            }
        };
        insert(&mut successor, tree, 4_000).await;
        successor.publish().await.expect("the tenure lasts");
        assert_eq!(keys(&first, domain, tree, 4_100).await.len(), 4_001);
    });
}

/// The number of words of a region that are `word`.
fn count_of(region: &dyn PersistentRegion, word: u64) -> usize {
    let words = (0..GEOMETRY.pool_size()).step_by(8);
    words.filter(|offset| region.load(*offset) == word).count()
}

/// Needs the window at the mirror, for each tenure anew.
#[test]
fn a_ticket_ends_when_both_logs_have_its_record_on_every_provider() {
    on_every_provider(|[server, mirror, other]| async move {
        let folders = [0, 1].map(|_| tempfile::tempdir().expect("a folder"));
        let [(first, here), (_, there)] = folders.each_ref().map(medium);
        drop(
            StructurePool::create(first, GEOMETRY)
                .await
                .expect("a pool"),
        );
        let copy = Rc::new(of_region(&there, 6));
        let (port, runtime) = (mirror.port.clone(), mirror.runtime.clone());
        let copying = MirrorServer::start(port, runtime, copy, &mirror.address);
        let mut copying = copying.expect("the medium is sound");
        mirror.runtime.spawn(Box::pin(async move {
            let promoted = copying.run().await;
            unreachable!("nobody promotes the mirror: {promoted:?}");
        }));
        let (port, runtime) = (server.port.clone(), server.runtime.clone());
        let of = (&*mirror.address, LEASE_NS);
        let attached = MirrorLink::attach(&port, runtime.clone(), of_region(&here, 5), of).await;
        let (medium, link) = attached.expect("the mirror is empty");
        let of = (&*server.address, LEASE_NS);
        let service = Service::start(port, runtime.clone(), medium, of).await;
        let mut service = service.expect("the pool opens").with_mirror(link);
        runtime.spawn(Box::pin(async move {
            service.run().await.expect("the back-end serves");
        }));
        let back_end = BackEnd::connect(&other.port, &server.address).await;
        let back_end = back_end.expect("it accepts");
        while !back_end.counts().await.expect("it serves").mirror.is_bound {
            server.runtime.sleep(1_000_000).await;
        }
        server.runtime.sleep(10_000_000).await;
        let domain = back_end.create_domain(2).await.expect("there is room");
        for tenure in 1..4_u64 {
            let mut writer = loop {
                match back_end.writer(domain).await {
                    Ok(writer) => break writer,
                    Err(FrontEndError::Held { .. }) => server.runtime.sleep(100_000).await,
                    Err(error) => panic!("{error}"),
                }
            };
            writer.mirror_log().expect("the mirror is whole");
            let tree = match writer.roots().named("BTree") {
                Some(named) => named.number,
                None => create(&mut writer, StructureKind::BTree).await,
            };
            let value = 0x5ca1_ab1e_0000_0000 + tenure;
            let (key, bytes) = (tenure.encoded(), value.to_le_bytes());
            let insertion = operation(tree, Verb::Insert, &key, &bytes);
            let (_, ticket) = writer.stage(&insertion).await.expect("there is room");
            assert_eq!(
                [&here, &there].map(|region| count_of(&**region, value)),
                [0, 0]
            );
            ticket.await.expect("the tenure lasts");
            assert_eq!(
                [&here, &there].map(|region| count_of(&**region, value)),
                [1, 1]
            );
            writer.release().await.expect("the tenure lasts");
        }
    });
}

async fn of_domain(writer: &mut Writer, verb: Verb, name: &str) {
    let change = operation(0, verb, name.as_bytes(), &[]);
    let (_, _ticket) = writer.stage(&change).await.expect("there is room");
    writer.publish().await.expect("the tenure lasts");
}

async fn value_of(reader: &mut StructureReader, key: u64) -> Result<Option<u64>, FrontEndError> {
    let number = |value: &[u8]| u64::from_le_bytes(value.try_into().expect("a number"));
    reader.get(&key.encoded(), number).await
}

/// Needs both looks behind a read in the call: at the serving word, and at the root word.
#[test]
fn a_read_in_the_call_counts_only_while_the_back_end_serves_and_the_structure_lasts() {
    on_every_provider(|[server, one, other]| async move {
        let folder = tempfile::tempdir().expect("a folder");
        let (medium, region) = medium(&folder);
        serve(&server, medium).await;
        let first = BackEnd::connect(&one.port, &server.address).await.unwrap();
        let second = BackEnd::connect(&other.port, &server.address);
        let second = second.await.unwrap();
        let domain = first.create_domain(2).await.expect("there is room");
        let mut writer = first.writer(domain).await.expect("the domain is free");
        let tree = create(&mut writer, StructureKind::BTree).await;
        for key in 0..900 {
            insert(&mut writer, tree, key).await;
        }
        writer.publish().await.expect("the tenure lasts");
        let reader = second.reader(domain).await.expect("there is the domain");
        let reader = StructureReader::open(reader.remembering(1 << 20), "BTree").await;
        let mut reader = reader.expect("it was created");
        for key in 0..1_000 {
            let expected = (key < 900).then_some(key * 3);
            assert_eq!(value_of(&mut reader, key).await.unwrap(), expected);
        }
        let page = reader.page(&Seek::At(Vec::new())).await.unwrap();
        assert_eq!(page.item(0).0, 0_u64.encoded());
        let is_in_call = other.port.device().placing() == Placing::RequesterProcessor;
        assert_eq!(reader.answers_in_call() > 900, is_in_call);

        if is_in_call {
            let word = PoolGeometry::serving_word().offset;
            region.store(word, region.load(word) + 1);
            let ended = value_of(&mut reader, 5).await;
            assert!(matches!(ended, Err(FrontEndError::Stale(_))), "{ended:?}");
            region.store(word, region.load(word) + 1);
            assert_eq!(value_of(&mut reader, 5).await.unwrap(), Some(15));
        }
        of_domain(&mut writer, Verb::Clear, "BTree").await;
        assert_eq!(value_of(&mut reader, 5).await.unwrap(), None);
        of_domain(&mut writer, Verb::Drop, "BTree").await;
        let ended = value_of(&mut reader, 5).await;
        assert!(
            matches!(ended, Err(FrontEndError::NoStructure)),
            "{ended:?}"
        );
    });
}
