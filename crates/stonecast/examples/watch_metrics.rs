//! Prints the counters of a server once a second for three seconds. Start a server first, with `stonecast serve` in
//! another terminal. The argument is the server's address, if the address is not the default one.

use std::thread::sleep;
use std::time::Duration;

use stonecast::blocking;

fn main() -> Result<(), stonecast::Error> {
    let url = std::env::args().nth(1);
    let client = blocking::connect(url.as_deref().unwrap_or("shm:./stonecast-data/socket"))?;
    for _ in 0..3 {
        print_a_second(&client)?;
    }
    Ok(())
}

fn print_a_second(client: &blocking::Client) -> Result<(), stonecast::Error> {
    let before = client.metrics()?;
    sleep(Duration::from_secs(1));
    let now = client.metrics()?;
    let puts = now.stat.puts - before.stat.puts;
    let latency = now.one_sided.write_latencies.quantile(0.99);
    println!(
        "{} keys, {} of {} bytes live; {puts} puts and {} syncs in a second; 99 of 100 sampled writes took at most {latency:?} ns",
        now.stat.keys,
        now.stat.live_bytes,
        now.stat.capacity_bytes,
        now.syncs - before.syncs,
    );
    Ok(())
}
