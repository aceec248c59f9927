//! A store as its users see it: futures here, and two threads behind them.

use std::io;
use std::sync::{Arc, mpsc};
use std::thread;

use futures_channel::oneshot;
use stonecast_cluster::{ConfigStore, Pending, Revision, StoreError, Stored, Swap, VALUE_SIZE_MAX};

use crate::backend::{Backend, Failure};
use crate::board::{Board, Until};

/// What the thread of calls is asked, and where its answer goes.
enum Call {
    Read(oneshot::Sender<Result<Option<Stored>, Failure>>),
    Swap {
        expected: Option<Revision>,
        bytes: Vec<u8>,
        answer: oneshot::Sender<Result<Swap, Failure>>,
    },
}

/// A store with its threads.
pub struct Front {
    name: String,
    calls: mpsc::Sender<Call>,
    board: Arc<Board>,
}

impl Front {
    /// Starts the threads of the store `name`: one does calls, the other one watches.
    pub fn start(name: &str, calls: impl Backend, watch: impl Backend) -> io::Result<Self> {
        let (sender, receiver) = mpsc::channel();
        let board = Arc::new(Board::default());
        thread::Builder::new()
            .name("config-calls".to_owned())
            .spawn(move || do_calls(calls, &receiver))?;
        let of_thread = board.clone();
        // Where this one cannot be started, the first one ends with the sender.
        thread::Builder::new()
            .name("config-watch".to_owned())
            .spawn(move || of_thread.run(watch))?;
        Ok(Self {
            name: name.to_owned(),
            calls: sender,
            board,
        })
    }

    async fn ask<T>(
        &self,
        call: impl FnOnce(oneshot::Sender<Result<T, Failure>>) -> Call,
    ) -> Result<T, Failure> {
        let (answer, answered) = oneshot::channel();
        let sent = self.calls.send(call(answer));
        sent.expect("the thread of calls lives as long as its store");
        answered.await.expect("the thread of calls answers")
    }

    async fn later_than(&self, since: Option<Revision>) -> Result<Stored, Failure> {
        let mut has_waited = true;
        loop {
            let until = match self.ask(Call::Read).await {
                Ok(Some(stored)) if Some(stored.revision) > since => return Ok(stored),
                Ok(_) if has_waited => Until::LaterThan(since),
                // The other thread saw something later, and it is gone again.
                Ok(_) => Until::NextLook,
                Err(Failure::Passing(_)) => Until::NextLook,
                Err(failure) => return Err(failure),
            };
            has_waited = self.board.wait(until).await;
        }
    }
}

/// Does calls one after the other. A call that nobody waits for any more is not begun.
fn do_calls(mut backend: impl Backend, calls: &mpsc::Receiver<Call>) {
    for call in calls {
        // Whoever asked may have gone meanwhile.
        match call {
            Call::Read(answer) if !answer.is_canceled() => {
                let _ = answer.send(backend.read());
            }
            Call::Swap {
                expected,
                bytes,
                answer,
            } if !answer.is_canceled() => {
                let _ = answer.send(backend.swap(expected, &bytes));
            }
            Call::Read(_) | Call::Swap { .. } => {}
        }
    }
}

impl ConfigStore for Front {
    fn name(&self) -> &str {
        &self.name
    }

    fn read(&self) -> Pending<'_, Result<Option<Stored>, StoreError>> {
        Box::pin(async {
            let read = self.ask(Call::Read).await;
            read.map_err(|failure| failure.of(&self.name))
        })
    }

    fn compare_and_set(
        &self,
        expected: Option<Revision>,
        bytes: &[u8],
    ) -> Pending<'_, Result<Swap, StoreError>> {
        let (size, bytes) = (bytes.len(), bytes.to_vec());
        Box::pin(async move {
            if size > VALUE_SIZE_MAX {
                let reason =
                    format!("the value has {size} bytes, and {VALUE_SIZE_MAX} are the most");
                return Err(Failure::Lasting(reason).of(&self.name));
            }
            let swap = self.ask(|answer| Call::Swap {
                expected,
                bytes,
                answer,
            });
            swap.await.map_err(|failure| failure.of(&self.name))
        })
    }

    fn changed(&self, since: Option<Revision>) -> Pending<'_, Result<Stored, StoreError>> {
        Box::pin(async move {
            let later = self.later_than(since).await;
            later.map_err(|failure| failure.of(&self.name))
        })
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        self.board.close();
    }
}
