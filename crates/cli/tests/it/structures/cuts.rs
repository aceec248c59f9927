//! The power of the machine is cut under a back-end that front-ends reach over RDMA: sites for `power_cuts`, whose
//! judge reads the notes.
//!
//! ```text
//!   writer 0   inserts and removes: each update is published before the next one
//!   writer 1   stages updates of several keys, and waits until all of them are durable: a later opening publishes them
//! ```

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use rand::RngExt as _;
use rustix::process::Signal;
use stonecast::Connector;
use stonecast::structures::{BTree, Connection, Error, Session, Writer};
use stonecast_base::{Random, random_from_seed};

use crate::kill::notes::{Kind, Note, Notes};
use crate::kill::work::{WRITERS, value_of};
use crate::power_cuts::{Site, verdict};
use crate::support::{Server, command};

use super::text;

type Tree = BTree<Vec<u8>, Vec<u8>>;

/// The address of the back-end without its port, and the devices at the two ends of its link.
const ADDRESS: &str = "10.9.0.2";
const BACK_END: &str = "rxe1";
const FRONT_ENDS: &str = "rxe0";
const KEYS: &str = "/tmp/keys";
const KEYS_OF_A_WRITER: u64 = 12;
/// Updates that a writer stages before it waits.
const STAGED: u64 = 4;
/// Emulation takes long, above all beside other work of the host.
const PATIENCE: Duration = Duration::from_secs(60);
/// The time after which a ticket counts as one that needs the back-end.
const STOPPED: Duration = Duration::from_secs(1);

/// Needs a ticket that ends when the update is durable, and not when the update was sent: a back-end that has heard
/// nothing of an update publishes it at its next opening.
#[test]
#[ignore = "a machine whose power is cut runs it: cargo xtask guest --only structures-power-cuts"]
fn loads_structures_until_the_power_is_cut() {
    let site = Site::from_environment();
    let pool = Pool::from_environment();
    site.leave("opening", b"");
    if site.boot > 0 {
        let verified = verdict(&["structures", "verify"], &pool.data);
        site.leave("verified", verified.as_bytes());
    }
    let server = Server::of(pool.serve(), &pool.data);
    site.leave("export", pool.exported().as_bytes());
    let is_one_sided = pool.platform == "wsp";
    assert_eq!(
        pool.ends_tickets_while_stopped(&server, is_one_sided),
        is_one_sided,
        "the plan of {}",
        pool.platform
    );
    if site.is_the_last_boot() {
        return;
    }
    let start_one = |worker| {
        let connector = pool.connector();
        let (notes, first) = (site.notes(site.boot, worker), site.first_operation(worker));
        std::thread::spawn(move || {
            let connection = Connection::open(connector).expect("the back-end serves");
            let load = Load {
                worker,
                notes: Notes::append(&notes),
                operation: first,
                random: random_from_seed(first),
            };
            connection.run(async |session| load.run(session).await)
        })
    };
    let writers: Vec<_> = (0..WRITERS).map(start_one).collect();
    site.wait_for_notes(WRITERS);
    site.leave("loading", b"");
    for writer in writers {
        let ended = writer.join().expect("every update is done");
        ended.expect("every update is done");
    }
    unreachable!("a writer ends with the machine");
}

/// The pool of a site, and the port of its back-end.
struct Pool {
    data: PathBuf,
    platform: String,
    port: String,
}

impl Pool {
    fn from_environment() -> Self {
        let value = |name: &str| {
            std::env::var(name).unwrap_or_else(|_| panic!("`cargo xtask guest` sets {name}"))
        };
        Self {
            data: value("STONECAST_POOL").into(),
            platform: value("STONECAST_PLATFORM"),
            port: value("STONECAST_PORT"),
        }
    }

    fn address(&self) -> String {
        format!("verbs:{ADDRESS}:{}", self.port)
    }

    fn serve(&self) -> Command {
        let mut serve = command();
        serve.args(["serve", "--structures", text(&self.data)]);
        serve.args(["--platform", &self.platform]);
        serve.args(["--listen", &self.address()]);
        serve.args(["--rdma-device", BACK_END, "--keys", KEYS]);
        serve
    }

    fn connector(&self) -> Connector {
        let connector = Connector::new(&self.address()).expect("an address");
        connector
            .keys(KEYS)
            .rdma_device(FRONT_ENDS)
            .connect_timeout(PATIENCE)
    }

    fn connect(&self) -> Connection {
        Connection::open(self.connector()).expect("the back-end serves")
    }

    /// The entries of all writers, as `export` of keys and values shows them.
    fn exported(&self) -> String {
        let read_all = async |session: &Session, name: &str| {
            let mut tree = session.reader::<Tree>(name).await?;
            tree.range(..).collect().await
        };
        let mut lines = String::new();
        let connection = self.connect();
        for worker in 0..WRITERS {
            let name = name_of(worker);
            let entries = match connection.run(async |session| read_all(session, &name).await) {
                Err(Error::NotFound { .. }) => Vec::new(),
                entries => entries.expect("the tree is whole"),
            };
            for (key, value) in entries {
                let [key, value] = [key, value].map(|it| String::from_utf8(it).expect("text"));
                lines += &serde_json::json!({ "key": key, "value": value }).to_string();
                lines += "\n";
            }
        }
        lines
    }

    /// Whether an update becomes durable while the process of the back-end is stopped. A one-sided plan takes as long
    /// as the emulated machine does, and the other one is not awaited.
    fn ends_tickets_while_stopped(&self, server: &Server, is_one_sided: bool) -> bool {
        let limit = if is_one_sided { PATIENCE } else { STOPPED };
        self.connect()
            .run(async |session| {
                let mut tree = session.writer::<Tree>("probe").await?;
                let key = b"key".to_vec();
                tree.insert(&key, &b"a value".to_vec()).await?;
                server.signal(Signal::STOP);
                let staged = tree.stage(&key, &b"another value".to_vec()).await;
                let ended = session.within(limit, staged?).await;
                server.signal(Signal::CONT);
                ended.transpose().map(|ended| ended.is_some())
            })
            .expect("the back-end serves")
    }
}

fn name_of(worker: usize) -> String {
    format!("writer-{worker}")
}

/// A writer of keys of its own.
struct Load {
    worker: usize,
    notes: Notes,
    /// The number of the next operation.
    operation: u64,
    random: Random,
}

impl Load {
    async fn run(mut self, session: &Session) -> Result<(), Error> {
        let name = name_of(self.worker);
        let mut tree = session.writer_within::<Tree>(&name, PATIENCE).await?;
        loop {
            match self.worker {
                0 => self.update(&mut tree).await?,
                _ => self.stage(&mut tree).await?,
            }
        }
    }

    async fn update(&mut self, tree: &mut Writer<Tree>) -> Result<(), Error> {
        let index = self.random.random_range(0..KEYS_OF_A_WRITER);
        let (operation, kind, key) = self.begin(index);
        match kind {
            Kind::Put => tree.insert(&key, &value_of(operation)).await?,
            Kind::Delete => tree.remove(&key).await?,
        };
        self.notes.write(&Note::Acknowledged { operation });
        Ok(())
    }

    async fn stage(&mut self, tree: &mut Writer<Tree>) -> Result<(), Error> {
        let first = self.random.random_range(0..KEYS_OF_A_WRITER);
        let mut tickets = Vec::new();
        for index in first..first + STAGED {
            let (operation, kind, key) = self.begin(index % KEYS_OF_A_WRITER);
            let ticket = match kind {
                Kind::Put => tree.stage(&key, &value_of(operation)).await?,
                Kind::Delete => tree.stage_remove(&key).await?,
            };
            tickets.push((operation, ticket));
        }
        for (operation, ticket) in tickets {
            ticket.await?;
            self.notes.write(&Note::Acknowledged { operation });
        }
        Ok(())
    }

    /// Draws an operation on a key, and notes its begin.
    fn begin(&mut self, index: u64) -> (u64, Kind, Vec<u8>) {
        let operation = self.operation;
        self.operation += 1;
        let kind = match self.random.random_bool(0.25) {
            true => Kind::Delete,
            false => Kind::Put,
        };
        let key = format!("{}/{index}", name_of(self.worker));
        self.notes.write(&Note::Begin {
            operation,
            kind,
            key: key.clone(),
        });
        (operation, kind, key.into_bytes())
    }
}
