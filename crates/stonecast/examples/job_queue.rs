//! A queue of jobs between processes: this process puts jobs in, and a process of its own takes them out.

use std::process::Command;
use std::time::Duration;

use stonecast::Durability;
use stonecast::structures::{Error, Queue, Server, connect};

type Jobs = Queue<String>;

/// Takes all jobs. Each of them is gone for everybody when it is taken.
fn work(url: &str) -> Result<(), Error> {
    connect(url)?.run(async |session| {
        let wait = Duration::from_secs(10);
        let mut jobs = session.writer_within::<Jobs>("jobs", wait).await?;
        while let Some(job) = jobs.pop().await? {
            println!("process {} does {job}", std::process::id());
        }
        jobs.release().await
    })
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    if let Some(url) = std::env::args().nth(1) {
        return Ok(work(&url)?);
    }
    let folder = tempfile::tempdir()?;
    let pool = Server::builder(folder.path().join("pool")).durability(Durability::Process);
    let server = pool.capacity(64 << 20).serve()?;
    let url = server.address().to_string();
    connect(&url)?.run(async |session| {
        let mut jobs = session.writer::<Jobs>("jobs").await?;
        jobs.push(&"paint the door".to_owned()).await?;
        jobs.release().await
    })?;
    let worker = Command::new(std::env::current_exe()?).arg(&url).status()?;
    assert!(worker.success());
    Ok(server.shutdown()?)
}
