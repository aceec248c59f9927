//! Nodes in processes of their own over shared memory, with the default lease and a store in files.
//!
//! The test binary runs itself again as each node. A node prints the events for its store, and dies by a signal.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use stonecast_base::random_from_seed;
use stonecast_cluster::{Configuration, Found, Subject, Timing};
use stonecast_fabric::{BusyPoll, Device as _, Park, Port};
use stonecast_fabric_shm::{ShmDevice, ShmOptions};
use stonecast_member::{Member, MemberEvent, Seat};

use crate::scene::{Memory, NONCE, PolicyWords, Shape, first_configuration, name, node};

const FOLDER: &str = "STONECAST_TEST_FOLDER";
const NODE: &str = "STONECAST_TEST_NODE";
/// Longest life of a node, so that no node outlives its test for long.
const LIFE: Duration = Duration::from_secs(60);
/// Longest wait of the story for any event.
const PATIENCE: Duration = Duration::from_secs(30);

const SHAPE: Shape = Shape {
    nodes: 3,
    policy: PolicyWords {
        replicas: 3,
        shards: 3,
        lease: Timing::SHARED_CORES,
        remove_after_ns: 500_000_000,
    },
    drift_ppm: 0,
};

fn address(folder: &Path, index: usize) -> String {
    let socket = folder.join(name(index).as_str());
    format!("shm:{}", socket.display())
}

fn store_address(folder: &Path) -> String {
    format!("file:{}", folder.join("configuration").display())
}

/// Runs as a node if the story has started this process as one, and does nothing otherwise.
#[test]
fn plays_its_part() {
    let Ok(index) = std::env::var(NODE) else {
        return;
    };
    let (index, folder) = (index.parse().unwrap(), std::env::var(FOLDER).unwrap());
    let folder = Path::new(&folder);
    let device = ShmDevice::new(ShmOptions::default()).unwrap();
    let park: Rc<dyn Park> = device.clone();
    let executor = BusyPoll::new(park, 10_000);
    let port = Rc::new(Port::new(device.clone(), 512).unwrap());
    executor.add_port(&port);
    let first = first_configuration(SHAPE, |index| address(folder, index));
    let address = address(folder, index);
    device.listen(&address).unwrap();
    let seat = Seat {
        port,
        runtime: executor.runtime(),
        store: stonecast_config_store::open(&store_address(folder)).unwrap(),
        cell: Memory::in_epoch_of(&first),
        cluster: NONCE,
        name: name(index),
        node: node(index, &address),
        found: Found::nothing(),
        random: random_from_seed(index as u64),
    };
    let runtime = executor.runtime();
    let life = async {
        let member = Member::start(seat).await.expect("registered");
        member.take_all_requests();
        loop {
            match member.event().await.expect("a member") {
                MemberEvent::Leads { subject, .. } => println!("\nleads {subject}"),
                MemberEvent::Resigned { subject, .. } => println!("\nresigned {subject}"),
                _ => {}
            }
        }
    };
    let life = runtime.within(LIFE.as_nanos() as u64, life);
    let _: Result<(), _> = executor.block_on(life);
}

/// A node's process; killed when it is dropped.
struct Process {
    child: Child,
    said: Receiver<String>,
    leads: Vec<String>,
}

impl Process {
    fn start(folder: &Path, index: usize) -> Self {
        let binary = std::env::current_exe().unwrap();
        let mut child = Command::new(binary)
            .args(["--exact", "processes::plays_its_part", "--nocapture"])
            .env(FOLDER, folder)
            .env(NODE, index.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, said) = channel();
        std::thread::spawn(move || {
            let lines = output.lines().map_while(Result::ok);
            lines.map(|line| sender.send(line)).all(|sent| sent.is_ok())
        });
        Self {
            child,
            said,
            leads: Vec::new(),
        }
    }

    /// Takes the lines that the process has printed so far.
    fn listen(&mut self) {
        for line in self.said.try_iter() {
            if let Some(subject) = line.strip_prefix("leads ") {
                self.leads.push(subject.to_owned());
            } else if let Some(subject) = line.strip_prefix("resigned ") {
                self.leads.retain(|led| led != subject);
            }
        }
    }

    /// Returns the processor time so far, in ticks of the system.
    fn processor_ticks(&self) -> u64 {
        let path = format!("/proc/{}/stat", self.child.id());
        let stat = std::fs::read_to_string(path).unwrap();
        let (_, fields) = stat.rsplit_once(") ").unwrap();
        let fields: Vec<&str> = fields.split(' ').collect();
        let ticks = |field: usize| fields[field].parse::<u64>().unwrap();
        ticks(11) + ticks(12)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The call fails if the process has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until every group has a leader among `nodes`.
fn wait_until_led(nodes: &mut [Process], subjects: &[Subject]) -> Duration {
    let began = Instant::now();
    loop {
        nodes.iter_mut().for_each(Process::listen);
        let is_led = |subject: &Subject| {
            let subject = subject.to_string();
            nodes.iter().any(|node| node.leads.contains(&subject))
        };
        if subjects.iter().all(is_led) {
            return began.elapsed();
        }
        assert!(began.elapsed() < PATIENCE, "every group is led in time");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Stores the first configuration.
fn found(folder: &Path) -> Configuration {
    std::fs::create_dir(folder.join("configuration")).unwrap();
    let device = ShmDevice::new(ShmOptions::default()).unwrap();
    let executor = BusyPoll::new(device, 0);
    let store = stonecast_config_store::open(&store_address(folder)).unwrap();
    let first = first_configuration(SHAPE, |index| address(folder, index));
    let stored = executor.block_on(store.compare_and_set(None, &first.encode()));
    stored.unwrap();
    first
}

#[test]
fn a_process_that_is_killed_is_succeeded_by_those_that_live() {
    let folder = tempfile::tempdir().unwrap();
    let first = found(folder.path());
    let groups = first.groups.iter().map(|group| group.subject.clone());
    let subjects: Vec<Subject> = groups.collect();
    let started = (0..SHAPE.nodes).map(|index| Process::start(folder.path(), index));
    let mut nodes: Vec<_> = started.collect();
    wait_until_led(&mut nodes, &subjects);
    std::thread::sleep(Duration::from_millis(500));
    wait_until_led(&mut nodes, &subjects);

    let ticks: Vec<_> = nodes.iter().map(Process::processor_ticks).collect();
    std::thread::sleep(Duration::from_secs(2));
    let after: Vec<_> = nodes.iter().map(Process::processor_ticks).collect();
    let busiest = after
        .iter()
        .zip(&ticks)
        .map(|(after, before)| after - before);
    println!(
        "busiest of three idle nodes: {} ticks of 10 ms in 2 s",
        busiest.max().unwrap()
    );

    nodes.iter_mut().for_each(Process::listen);
    let leader = nodes.iter().position(|node| !node.leads.is_empty());
    drop(nodes.remove(leader.expect("some node leads")));
    let took = wait_until_led(&mut nodes, &subjects);
    println!("from SIGKILL until every group is led again: {took:?}");
}
