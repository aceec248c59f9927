//! Stores a value and reads it back. Start a server first, with `stonecast serve` in another terminal. The argument is
//! the server's address, if the address is not the default one.

fn main() -> Result<(), stonecast::Error> {
    let url = std::env::args().nth(1);
    let url = url.as_deref().unwrap_or("shm:./stonecast-data/socket");
    let client = stonecast::blocking::connect(url)?;
    let version = client.put("greeting", "hello")?;
    let entry = client.get("greeting")?.expect("just stored");
    assert_eq!(entry.value, b"hello");
    println!("greeting is at version {version}");
    Ok(())
}
