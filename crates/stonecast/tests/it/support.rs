//! A server in a folder of the test.

use std::path::PathBuf;
use std::time::Duration;

use stonecast::server::{Builder, ServerHandle};
use stonecast::{Connector, Durability, Effect, Server, Token, Write};
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
        Server::builder(self.data())
            .durability(Durability::Process)
            .capacity(16 << 20)
            .segment_size(1 << 20)
    }

    pub fn data(&self) -> PathBuf {
        self.folder.path().join("pool")
    }

    pub fn start(&mut self) {
        self.server = Some(self.builder().serve().unwrap());
    }

    pub fn end(&mut self) {
        self.server.take().unwrap().shutdown().unwrap();
    }

    pub fn url(&self) -> String {
        format!("shm:{}", self.data().join("socket").display())
    }

    /// Sends a put of "one" under "a", does not receive its answer, and returns its token.
    pub fn sent_without_answer(&self) -> Token {
        let client = Connector::new(&self.url())
            .unwrap()
            // The limit ends before any server can answer: the put is sent, and its outcome is unknown.
            .operation_timeout(Some(Duration::ZERO))
            .connect_blocking()
            .unwrap();
        let error = client
            .put_with("a", "one", Write::retryable())
            .expect_err("no answer comes in no time");
        let Effect::Unknown { token: Some(token) } = error.effect() else {
            panic!("{error:?}");
        };
        token
    }
}

pub fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap()
        .block_on(work)
}
