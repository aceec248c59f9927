//! The effect that errors of data structures tell.

use std::borrow::Cow;
use std::num::NonZeroU64;

use stonecast::structures::{
    self, BTree, Builder, Error, HashTable, Queue, Server, Value, connect_blocking,
};
use stonecast::{Durability, Effect};
use tempfile::TempDir;

const UNKNOWN: Effect = Effect::Unknown { token: None };

fn pool(folder: &TempDir) -> Builder {
    Server::builder(folder.path().join("pool"))
        .durability(Durability::Process)
        .capacity(32 << 20)
}

/// A number that is stored in any case, and read only if it is even.
#[derive(Debug)]
struct Even(u64);

impl Value for Even {
    const SIZE: usize = 8;

    fn schema(into: &mut String) {
        into.push_str("even");
    }

    fn encode(&self) -> Cow<'_, [u8]> {
        Cow::Owned(self.0.to_le_bytes().to_vec())
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let number = u64::from_le_bytes(bytes.try_into().ok()?);
        number.is_multiple_of(2).then_some(Self(number))
    }
}

/// Needs the look at the ticket behind a publication that has begun and fails.
#[test]
fn a_publication_that_has_begun_and_fails_tells_whether_its_updates_were_durable() {
    let folder = tempfile::tempdir().unwrap();
    let server = pool(&folder).serve().unwrap();
    let connection = structures::connect(&server.address().to_string()).unwrap();
    let told = connection.run(async |session| {
        let mut orders = session.writer::<BTree<u64, String>>("orders").await?;
        orders.stage(&1, &"pins".to_owned()).await?.await?;
        server.shutdown().unwrap();
        let durable = orders.start_publication().await?;
        let durable = durable.await.unwrap_err().effect();
        let _ticket = orders.stage(&2, &"glue".to_owned()).await?;
        let staged = orders.start_publication().await?;
        Ok::<_, Error>((durable, staged.await.unwrap_err().effect()))
    });
    assert_eq!(told.unwrap(), (Effect::Done, UNKNOWN));
}

/// Needs the look at the ticket behind a failed publication.
#[test]
fn an_update_that_is_durable_when_its_publication_fails_was_done() {
    let folder = tempfile::tempdir().unwrap();
    let server = pool(&folder).serve().unwrap();
    let session = connect_blocking(&server.address().to_string()).unwrap();
    let mut orders = session.writer::<BTree<u64, String>>("orders").unwrap();
    orders.stage(&1, &"pins".to_owned()).unwrap();
    orders.flush().unwrap();
    server.shutdown().unwrap();
    let lost = orders.publish().unwrap_err();
    assert_eq!(lost.effect(), Effect::Done, "{lost}");
    assert!(lost.to_string().contains("the update was done"), "{lost}");
    let lost = orders.insert(&2, &"glue".to_owned()).unwrap_err();
    assert_eq!(lost.effect(), UNKNOWN, "{lost}");

    let server = pool(&folder).serve().unwrap();
    let session = connect_blocking(&server.address().to_string()).unwrap();
    let mut orders = session.reader::<BTree<u64, String>>("orders").unwrap();
    assert_eq!(orders.get(&1).unwrap().as_deref(), Some("pins"));
    server.shutdown().unwrap();
}

/// Needs the effect of the update in the error of its publication.
#[test]
fn an_update_whose_answer_does_not_come_is_unknown_and_its_attempt_tells() {
    let folder = tempfile::tempdir().unwrap();
    let server = pool(&folder).serve().unwrap();
    let connection = structures::connect(&server.address().to_string()).unwrap();
    let (attempt, lost) = connection
        .run(async |session| {
            let mut orders = session.writer::<BTree<u64, String>>("orders").await?;
            let attempt = orders.attempt(NonZeroU64::MIN);
            server.shutdown().unwrap();
            let lost = orders.once(attempt).insert(&1, &"pins".to_owned()).await;
            Ok::<_, Error>((attempt, lost.unwrap_err()))
        })
        .unwrap();
    assert_eq!(lost.effect(), UNKNOWN, "{lost}");

    let server = pool(&folder).serve().unwrap();
    let connection = structures::connect(&server.address().to_string()).unwrap();
    connection
        .run(async |session| {
            let mut orders = session.writer::<BTree<u64, String>>("orders").await?;
            orders.once(attempt).insert(&1, &"pins".to_owned()).await?;
            assert_eq!(orders.get(&1).await?.as_deref(), Some("pins"));
            Ok::<_, Error>(())
        })
        .unwrap();
    server.shutdown().unwrap();
}

/// Needs the effect of the pop in the error of its answer.
#[test]
fn a_popped_value_that_cannot_be_read_is_taken_and_a_read_one_stays() {
    let folder = tempfile::tempdir().unwrap();
    let server = pool(&folder).serve().unwrap();
    let session = connect_blocking(&server.address().to_string()).unwrap();
    let mut jobs = session.writer::<Queue<Even>>("jobs").unwrap();
    jobs.push(&Even(1)).unwrap();
    let taken = jobs.pop().unwrap_err();
    assert!(matches!(taken, Error::Decode { .. }), "{taken}");
    assert_eq!(taken.effect(), Effect::Done);
    assert!(jobs.pop().unwrap().is_none(), "it is taken");

    let mut words = session.writer::<HashTable<u64, Even>>("words").unwrap();
    words.insert(&1, &Even(1)).unwrap();
    let unread = words.get(&1).unwrap_err();
    assert!(matches!(unread, Error::Decode { .. }), "{unread}");
    assert_eq!(unread.effect(), Effect::None);
    server.shutdown().unwrap();
}

/// Needs the effect of reads and of refusals.
#[test]
fn a_read_that_fails_and_an_update_that_is_refused_change_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let server = pool(&folder).serve().unwrap();
    let session = connect_blocking(&server.address().to_string()).unwrap();
    let mut blobs = session.writer::<HashTable<u64, Vec<u8>>>("blobs").unwrap();
    let refused = blobs.insert(&1, &vec![0; (1 << 20) + 1]).unwrap_err();
    assert!(matches!(refused, Error::TooLarge { .. }), "{refused}");
    assert_eq!(refused.effect(), Effect::None);
    server.shutdown().unwrap();
    let gone = session.list().unwrap_err();
    assert!(matches!(gone, Error::Gone { .. }), "{gone}");
    assert_eq!(gone.effect(), Effect::None, "{gone}");
}
