//! Prints the counters of a server once a second for three seconds. Start a server first, with `stonecast serve` in
//! another terminal. The argument is the server's address, if the address is not the default one.

use std::thread::sleep;
use std::time::Duration;

fn main() -> Result<(), stonecast::Error> {
    let url = std::env::args().nth(1);
    let client =
        stonecast::blocking::connect(url.as_deref().unwrap_or("shm:./stonecast-data/socket"))?;
    let mut before = client.stat()?;
    for _ in 0..3 {
        sleep(Duration::from_secs(1));
        let now = client.stat()?;
        println!(
            "{} keys, {} of {} bytes live, {} puts and {} persists in the last second",
            now.keys,
            now.live_bytes,
            now.capacity_bytes,
            now.puts - before.puts,
            now.persists - before.persists,
        );
        before = now;
    }
    Ok(())
}
