//! A server in a folder of the test's own.

use stonecast::server::{Builder, ServerHandle};
use stonecast::{Durability, Server};
use tempfile::TempDir;

/// A server that a test can end and start again.
pub struct Place {
    folder: TempDir,
    server: Option<ServerHandle>,
}

impl Place {
    /// A new pool, served.
    pub fn new() -> Self {
        let mut place = Self {
            folder: tempfile::tempdir().unwrap(),
            server: None,
        };
        place.start();
        place
    }

    pub fn builder(&self) -> Builder {
        Server::builder(self.folder.path().join("pool"))
            .durability(Durability::Process)
            .capacity(16 << 20)
            .segment_size(1 << 20)
    }

    pub fn start(&mut self) {
        self.server = Some(self.builder().serve().unwrap());
    }

    pub fn end(&mut self) {
        self.server.take().unwrap().shutdown().unwrap();
    }

    pub fn url(&self) -> String {
        format!("shm:{}", self.folder.path().join("pool/socket").display())
    }
}
