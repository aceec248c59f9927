//! A store and its gateway in one process, as `stonecast serve --resp` runs them, without the command line:
//!
//! ```text
//!   cargo run --release -p stonecast-gateway --example serve -- DIRECTORY 127.0.0.1:6380 process 127.0.0.1:9180
//! ```
#![forbid(unsafe_code)]

use std::path::Path;
use std::rc::Rc;

use stonecast_fabric::{BusyPoll, Device as _, Port};
use stonecast_fabric_shm::{ShmDevice, ShmOptions};
use stonecast_gateway::{GatewayOptions, spawn};
use stonecast_media::{
    Ddio, DeclaredPlatform, DirectoryBacking, Durability, OpenMode, PersistenceDomain, Pool, PoolOptions, ReceiveBuffers,
};
use stonecast_store_direct::{Server, ServerOptions};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [directory, resp, durability, admin @ ..] = &arguments[..] else {
        return Err("usage: serve DIRECTORY RESP-ADDRESS power|process [ADMIN-ADDRESS]".into());
    };
    let durability = if durability == "power" { Durability::Power } else { Durability::Process };
    let pool = open(Path::new(directory), durability)?;
    let device = ShmDevice::new(ShmOptions::default())?;
    let executor = BusyPoll::new(device.clone(), 200_000);
    let port = Rc::new(Port::new(device.clone(), 65_536)?);
    executor.add_port(&port);
    let address = format!("shm:{directory}/socket");
    let mut options = GatewayOptions::new(resp.parse()?, &address);
    options.admin = admin.first().map(|address| address.parse()).transpose()?;
    executor.block_on(async {
        let server_options = ServerOptions { process: std::process::id(), ..ServerOptions::default() };
        let (server, _) = Server::open(pool, port, executor.runtime(), server_options).await?;
        device.listen(&address)?;
        let gateway = spawn(options)?;
        eprintln!("serving {} and {:?}", gateway.resp_address(), gateway.admin_address());
        server.run(&|| gateway.is_finished()).await?;
        gateway.stop()?;
        server.close().await?;
        Ok(())
    })
}

fn open(directory: &Path, durability: Durability) -> Result<Pool, Box<dyn std::error::Error>> {
    if let Ok(backing) = DirectoryBacking::open(directory) {
        return Ok(Pool::open(Rc::new(backing), OpenMode::Serve)?.0);
    }
    let persistence_domain = match durability {
        Durability::Power => PersistenceDomain::PageFile,
        Durability::Process => PersistenceDomain::Volatile,
    };
    let platform = DeclaredPlatform { persistence_domain, ddio: Ddio::On, receive_buffers: ReceiveBuffers::Dram };
    let mut entropy = [0; 64];
    std::io::Read::read_exact(&mut std::fs::File::open("/dev/urandom")?, &mut entropy)?;
    let options = PoolOptions { capacity: 4 << 30, segment_size: 4 << 20, platform, durability, entropy };
    Ok(Pool::create(Rc::new(DirectoryBacking::create(directory)?), options)?)
}
