//! Transactions and look-ups name structures of the lock domain to which they are given, and of no other.

use std::fmt::Debug;

use stonecast::Durability;
use stonecast::structures::{
    BTree, BlockingDomain, BlockingSession, Error, HashTable, Look, Member, Server, ServerHandle,
    Transaction, connect_blocking,
};
use tempfile::TempDir;

type Stock = HashTable<u64, u64>;
type Names = BTree<u64, String>;

fn serve() -> (TempDir, ServerHandle, BlockingSession) {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::builder(folder.path().join("pool"))
        .durability(Durability::Process)
        .capacity(32 << 20)
        .serve()
        .unwrap();
    let session = connect_blocking(&server.address().to_string()).unwrap();
    (folder, server, session)
}

/// Expects that `domain` refuses everything that names `foreign`, in these words.
fn refuses(domain: &mut BlockingDomain, foreign: &Member<Stock>, words: &str) {
    fn check<T: Debug>(result: Result<T, Error>, words: &str) {
        let error = result.unwrap_err();
        assert!(matches!(error, Error::OtherDomain { .. }), "{error}");
        assert_eq!(error.to_string(), words);
        assert_eq!(error.effect(), stonecast::Effect::None);
    }
    let mut change = Transaction::default();
    change.insert(foreign, &1, &77);
    check(domain.commit(&change), words);
    let attempt = domain.attempt(5.try_into().unwrap());
    check(domain.commit_once(attempt, &change), words);
    let mut look = Look::default();
    look.at(foreign, &1);
    check(domain.look(&look), words);
}

/// Needs the lock domain of a member: both structures have the number 1.
#[test]
fn a_structure_of_another_lock_domain_is_refused_by_name_and_nothing_is_done() {
    let (_folder, _server, session) = serve();
    let mut shop = session.domain("shop").unwrap();
    let mut mill = session.domain("mill").unwrap();
    let stock = shop.structure::<Stock>("stock").unwrap();
    let names = mill.structure::<Names>("names").unwrap();
    let mut both = Transaction::default();
    both.insert(&names, &1, &"rye".to_owned());
    mill.commit(&both).unwrap();
    let words = "\"shop/stock\" is a structure of the lock domain \"shop\", and the lock domain \"mill\" was asked; \
                 a transaction lies in one lock domain";
    refuses(&mut mill, &stock, words);

    both.insert(&stock, &1, &1);
    let mixed = mill.commit(&both).unwrap_err();
    assert_eq!(mixed.to_string(), words);
    let mut seen = session.reader::<Names>("mill/names").unwrap();
    assert_eq!(seen.entries().unwrap(), [(1, "rye".to_owned())]);
    let mut seen = session.reader::<Stock>("shop/stock").unwrap();
    assert_eq!(seen.entries().unwrap(), []);
}

/// Needs the content of a member's back-end: both lock domains have the same name and number.
#[test]
fn a_structure_of_another_back_end_is_refused_by_name_and_nothing_is_done() {
    let (_folder, _server, session) = serve();
    let (_other_folder, _other_server, other) = serve();
    let mut here = session.domain("shop").unwrap();
    let mut there = other.domain("shop").unwrap();
    let stock = there.structure::<Stock>("stock").unwrap();
    here.structure::<Names>("names").unwrap();
    let words = "\"shop/stock\" is a structure of the lock domain \"shop\" of another back-end, and the lock domain \
                 \"shop\" was asked; a transaction lies in one lock domain";
    refuses(&mut here, &stock, words);
    let mut seen = session.reader::<Names>("shop/names").unwrap();
    assert_eq!(seen.entries().unwrap(), []);
}

/// Needs the look for the structure: its number names none any more.
#[test]
fn a_structure_that_has_ended_is_refused_by_name_and_one_of_an_earlier_tenure_is_not() {
    let (_folder, server, session) = serve();
    let mut shop = session.domain("shop").unwrap();
    let stock = shop.structure::<Stock>("stock").unwrap();
    let names = shop.structure::<Names>("names").unwrap();
    shop.release().unwrap();
    session
        .writer::<Names>("shop/names")
        .unwrap()
        .destroy()
        .unwrap();

    // Another connection, and another tenure, of the same lock domain.
    let again = connect_blocking(&server.address().to_string()).unwrap();
    let mut shop = again.domain("shop").unwrap();
    let mut both = Transaction::default();
    both.insert(&stock, &1, &1);
    shop.commit(&both).unwrap();
    both.insert(&names, &1, &"rye".to_owned());
    let gone = shop.commit(&both).unwrap_err();
    assert!(
        matches!(&gone, Error::NotFound { name } if name == "shop/names"),
        "{gone}"
    );
    let mut look = Look::default();
    look.at(&names, &1);
    let gone = shop.look(&look).unwrap_err();
    assert!(
        matches!(&gone, Error::NotFound { name } if name == "shop/names"),
        "{gone}"
    );
}
