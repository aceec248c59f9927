//! A cache of sessions: a session ends when nobody has used it for a while.

use std::thread::sleep;
use std::time::Duration;

use stonecast::blocking::{Client, connect};
use stonecast::{Durability, Error, Lifetime, Server, Write};

const IDLE: Duration = Duration::from_millis(600);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let server = Server::builder(folder.path().join("pool"))
        .durability(Durability::Process)
        .capacity(64 << 20)
        .serve()?;
    let client = connect(&server.address().to_string())?;
    let begin = Write::new().if_absent().expires_in(IDLE);
    client.put_with("session:1", "ada", begin)?;
    for _ in 0..4 {
        sleep(IDLE / 4);
        match user_of(&client, "session:1")? {
            Some(user) => println!("{user} is logged in"),
            None => println!("the machine stood still for too long"),
        }
    }
    sleep(2 * IDLE);
    assert_eq!(user_of(&client, "session:1")?, None);
    println!("the session has ended");
    client.close();
    server.shutdown()?;
    Ok(())
}

/// The user of a session, which lasts on.
fn user_of(client: &Client, session: &str) -> Result<Option<String>, Error> {
    let Some(entry) = client.get(session)? else {
        return Ok(None);
    };
    // A conflict means that the session was changed or has ended meanwhile: the next use finds out.
    client.touch(session, Lifetime::For(IDLE), Some(entry.version))?;
    Ok(Some(String::from_utf8_lossy(&entry.value).into_owned()))
}
