//! A write that is repeated until its outcome is known. The server is restarted in the middle; the write takes effect
//! once.

use std::time::Duration;

use stonecast::{Connector, Durability, Effect, Server, Write, blocking};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let pool = Server::builder(folder.path().join("pool"))
        .durability(Durability::Process)
        .capacity(64 << 20);
    let server = pool.clone().serve()?;
    let url = server.address().to_string();

    // A limit that no server can meet stands for a network that loses the answer.
    let hasty = Connector::new(&url)?.operation_timeout(Some(Duration::ZERO));
    let client = hasty.connect_blocking()?;
    let error = client
        .put_with("balance", "100", Write::retryable())
        .expect_err("no answer comes in no time");
    let Effect::Unknown { token: Some(token) } = error.effect() else {
        return Err(error.into());
    };
    println!("{error}");
    drop(client);
    server.shutdown()?;

    let server = pool.serve()?;
    let client = blocking::connect(&url)?;
    let first = client.put_with("balance", "100", Write::retry(token.clone()))?;
    client.put("balance", "90")?;
    // The balance stays at 90, however often the write is repeated.
    let again = client.put_with("balance", "100", Write::retry(token))?;
    assert_eq!(first, again);
    assert_eq!(client.get("balance")?.expect("stored").value, b"90");
    println!("the write took effect once, as {first:?}");
    client.close();
    server.shutdown()?;
    Ok(())
}
