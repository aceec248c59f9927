//! Three ways to have many reads in flight: one call for many keys, many futures on one thread, many tokio tasks.

use std::time::Instant;

use futures_util::future::join_all;
use stonecast::{Durability, Server, local};

const KEYS: u32 = 10_000;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let server = Server::builder(folder.path().join("pool"))
        .durability(Durability::Process)
        .capacity(64 << 20)
        .serve()?;
    let url = server.address().to_string();
    let keys: Vec<String> = (0..KEYS).map(|key| format!("key {key}")).collect();

    let connection = local::connect(&url)?;
    let pairs: Vec<(&str, &str)> = keys.iter().map(|key| (key.as_str(), "value")).collect();
    for chunk in pairs.chunks(100) {
        for outcome in connection.run(async |client| client.multi_put(chunk).await)? {
            outcome?;
        }
    }

    let start = Instant::now();
    for chunk in keys.chunks(100) {
        let found = connection.run(async |client| client.multi_get(chunk).await)?;
        assert!(found.iter().all(Option::is_some));
    }
    println!("multi_get of 100: {:?} a key", start.elapsed() / KEYS);

    let start = Instant::now();
    connection.run(async |client| {
        for chunk in keys.chunks(100) {
            for found in join_all(chunk.iter().map(|key| client.get(key.as_bytes()))).await {
                assert!(found.is_ok_and(|found| found.is_some()));
            }
        }
    });
    println!(
        "100 futures of one thread: {:?} a key",
        start.elapsed() / KEYS
    );
    connection.close();

    let client = stonecast::connect(&url).await?;
    let start = Instant::now();
    for chunk in keys.chunks(100) {
        for found in join_all(chunk.iter().map(|key| client.get(key.as_str()))).await {
            assert!(found?.is_some());
        }
    }
    println!(
        "100 futures of a program on tokio: {:?} a key",
        start.elapsed() / KEYS
    );
    client.close();
    server.shutdown()?;
    Ok(())
}
