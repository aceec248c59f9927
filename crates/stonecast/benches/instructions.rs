//! A program that does nothing but GETs of one kind of client, for a tool that counts instructions.
//!
//! ```text
//!   cargo build --release --package stonecast --bench instructions       names the program
//!   instructions serve FOLDER &                                          a pool with the keys, until it is killed
//!   valgrind --tool=callgrind instructions KIND COUNT FOLDER             store, local, blocking, client, client-64, many
//! ```
//!
//! The difference between the instructions of two counts, divided by the difference of the counts, is a GET, with
//! the loop of this program. Where valgrind ends in `rustix`, `RUSTFLAGS='--cfg rustix_use_libc'` helps. All keys
//! lie in the caches: the figure is the work, without the waits for memory.

use std::path::Path;
use std::process::ExitCode;
use std::thread;

use futures_util::future::join_all;
use stonecast::local::{Connection, Values};
use stonecast::{Durability, Server, blocking, local};

/// A power of two, so that a mask chooses the key.
const KEYS: usize = 64;
/// The length that `cargo xtask bench` measures.
const VALUE_SIZE: usize = 100;
const KEYS_OF_A_CALL: usize = 32;
/// Operations that the client for any thread has in flight.
const IN_FLIGHT: usize = 64;

type Outcome = Result<(), Box<dyn std::error::Error>>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve", folder] => serve(folder),
        [kind, count, folder] => count
            .parse()
            .map_err(Into::into)
            .and_then(|count| read(kind, count, folder)),
        // `cargo test --benches` runs the program without a kind.
        _ => {
            println!("usage: instructions serve FOLDER | KIND COUNT FOLDER");
            Ok(())
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn keys() -> Vec<Vec<u8>> {
    let name = |key| format!("user{key:019}").into_bytes();
    (0..KEYS).map(name).collect()
}

fn serve(folder: &str) -> Outcome {
    let server = Server::builder(Path::new(folder).join("pool"))
        .durability(Durability::Process)
        .capacity(64 << 20)
        .listen(address(folder).parse()?)
        .serve()?;
    let client = blocking::connect(&address(folder))?;
    for key in keys() {
        client.put(key, [7; VALUE_SIZE])?;
    }
    client.close();
    println!("serving {}", server.address());
    loop {
        thread::park();
    }
}

fn address(folder: &str) -> String {
    format!("shm:{folder}/socket")
}

fn read(kind: &str, count: usize, folder: &str) -> Outcome {
    let url = address(folder);
    match kind {
        "store" => of_store(&local::connect(&url)?, count),
        "local" => of_local(&local::connect(&url)?, count),
        "blocking" => of_blocking(&blocking::connect(&url)?, count),
        "client" => on_tokio(&url, count, 1),
        "many" => of_many(&local::connect(&url)?, count),
        "client-64" => on_tokio(&url, count, IN_FLIGHT),
        _ => Err(format!("{kind}: no such kind of client").into()),
    }
}

fn of_store(connection: &Connection, count: usize) -> Outcome {
    let (keys, mut value) = (keys(), Vec::with_capacity(VALUE_SIZE));
    connection.run(async |client| {
        for operation in 0..count {
            let found = client
                .store()
                .expect("a server")
                .get(&keys[operation % KEYS], &mut value)
                .await;
            assert!(found?.is_some());
        }
        Ok(())
    })
}

fn of_local(connection: &Connection, count: usize) -> Outcome {
    let (keys, mut value) = (keys(), Vec::with_capacity(VALUE_SIZE));
    connection.run(async |client| {
        for operation in 0..count {
            let found = client.get_into(&keys[operation % KEYS], &mut value).await;
            assert!(found?.is_some());
        }
        Ok(())
    })
}

fn of_blocking(client: &blocking::Client, count: usize) -> Outcome {
    let (keys, mut value) = (keys(), Vec::with_capacity(VALUE_SIZE));
    for operation in 0..count {
        let found = client.get_into(&keys[operation % KEYS], &mut value)?;
        assert!(found.is_some());
    }
    Ok(())
}

/// Reads by calls for many keys each. `count` counts keys.
fn of_many(connection: &Connection, count: usize) -> Outcome {
    let (keys, mut values) = (keys(), Values::default());
    let keys: Vec<&[u8]> = keys
        .iter()
        .map(Vec::as_slice)
        .take(KEYS_OF_A_CALL)
        .collect();
    connection.run(async |client| {
        for _ in 0..count / KEYS_OF_A_CALL {
            client.multi_get_into(&keys, &mut values).await?;
        }
        assert!((0..keys.len()).all(|index| values.get(index).is_some()));
        Ok(())
    })
}

/// GETs of a client that is shared by `in_flight` futures of one thread.
fn on_tokio(url: &str, count: usize, in_flight: usize) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    runtime.block_on(async {
        let client = stonecast::connect(url).await?;
        let keys = keys();
        let reads = (0..in_flight).map(async |task| {
            let mut value = Vec::with_capacity(VALUE_SIZE);
            for operation in 0..count / in_flight {
                let key = keys[(task + operation) % KEYS].as_slice();
                assert!(client.get_into(key, &mut value).await?.is_some());
            }
            Ok::<(), stonecast::Error>(())
        });
        for outcome in join_all(reads).await {
            outcome?;
        }
        client.close();
        Ok(())
    })
}
