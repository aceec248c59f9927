//! A dictionary that one writer keeps and many readers read, each over a connection of its own. No reader asks the
//! back-end's processor.

use std::thread;

use stonecast::Durability;
use stonecast::structures::{Error, HashTable, Server, connect_blocking};

type Dictionary = HashTable<String, u64>;

/// Looks a word up until it is there.
fn wait_for(url: &str, word: &str) -> Result<u64, Error> {
    let mut dictionary = connect_blocking(url)?.reader::<Dictionary>("words")?;
    loop {
        if let Some(meaning) = dictionary.get(&word.to_owned())? {
            return Ok(meaning);
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let pool = Server::builder(folder.path().join("pool")).durability(Durability::Process);
    let server = pool.capacity(64 << 20).serve()?;
    let url = server.address().to_string();
    let mut words = connect_blocking(&url)?.writer::<Dictionary>("words")?;
    words.insert(&"zero".to_owned(), &0)?;
    let readers: Vec<_> = (0..4)
        .map(|_| {
            let url = url.clone();
            thread::spawn(move || wait_for(&url, "answer"))
        })
        .collect();
    words.insert(&"answer".to_owned(), &42)?;
    for reader in readers {
        assert_eq!(reader.join().expect("no reader panics")?, 42);
    }
    Ok(server.shutdown()?)
}
