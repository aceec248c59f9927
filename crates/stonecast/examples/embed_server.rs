//! A program that embeds a server, as a test or a service does.

use stonecast::{Durability, Server, blocking};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let server = Server::builder(folder.path().join("pool"))
        .durability(Durability::Process)
        .capacity(64 << 20)
        .serve()?;
    let client = blocking::connect(&server.address().to_string())?;
    client.put("greeting", "hello from the same process")?;
    println!("{} keys at {}", client.stat()?.keys, server.address());
    client.close();
    server.shutdown()?;
    Ok(())
}
