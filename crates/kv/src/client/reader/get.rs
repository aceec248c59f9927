//! The future of a GET, with nearly no set-up and clean-up if the key is found in the call.
//!
//! ```text
//!   Asked --found in the call, and its turn-----------------> Over
//!     |   \--found in the call, others first--> Found --its turn--^
//!     \--not so--> LookedUp, a future in memory of its own------^
//! ```
//!
//! If a READ is a load, a GET takes a few hundred instructions. A future with room for a whole look-up takes a hundred
//! more instructions to be created, entered, finished and dropped. The room for a look-up is therefore allocated only
//! when needed.

use std::pin::Pin;
use std::task::{Context, Poll};

use stonecast_base::Nanoseconds;

use super::Reader;
use crate::client::meter::TimedCall;
use crate::error::StoreError;

type Outcome = Result<Option<u64>, StoreError>;

/// The future of a GET.
#[must_use = "futures do nothing unless they are awaited"]
pub(crate) struct Get<'a> {
    reader: &'a Reader,
    stage: Stage<'a>,
}

enum Stage<'a> {
    Asked {
        key: &'a [u8],
        value: &'a mut Vec<u8>,
    },
    Found {
        version: Option<u64>,
        start: Option<Nanoseconds>,
    },
    LookedUp(Pin<Box<dyn Future<Output = Outcome> + 'a>>),
    Over,
}

impl<'a> Get<'a> {
    #[inline]
    pub fn new(reader: &'a Reader, key: &'a [u8], value: &'a mut Vec<u8>) -> Self {
        Self {
            reader,
            stage: Stage::Asked { key, value },
        }
    }

    /// Begins the look-up of a key that was not found in the call.
    #[cold]
    fn look_up(&mut self, start: Option<Nanoseconds>) {
        let reader = self.reader;
        let Stage::Asked { key, value } = std::mem::replace(&mut self.stage, Stage::Over) else {
            unreachable!("asked and not begun")
        };
        self.stage = Stage::LookedUp(Box::pin(async move {
            let result = reader.find(key, value).await;
            let result = result.map(|found| found.map(|found| found.version));
            reader.connection.end_call(TimedCall::Read(1), start);
            result
        }));
    }

    /// The work of every later poll, and of a first poll that found nothing in the call.
    #[inline(never)]
    fn poll_on(&mut self, context: &mut Context<'_>) -> Poll<Outcome> {
        let connection = &self.reader.connection;
        let result = match &mut self.stage {
            Stage::LookedUp(look_up) => std::task::ready!(look_up.as_mut().poll(context)),
            Stage::Found { version, start } => {
                let (version, start) = (*version, *start);
                std::task::ready!(connection.port.poll_turn(context));
                connection.end_call(TimedCall::Read(1), start);
                Ok(version)
            }
            Stage::Asked { .. } | Stage::Over => {
                unreachable!("begun, and not polled after its end")
            }
        };
        self.stage = Stage::Over;
        Poll::Ready(result)
    }
}

impl Future for Get<'_> {
    type Output = Outcome;

    // The function is small. Where the compiler inlines it into the caller's await, the stages
    // disappear.
    #[inline(always)]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        let this = self.get_mut();
        if let Stage::Asked { key, value } = &mut this.stage {
            let connection = &this.reader.connection;
            let start = connection.begin_call();
            if let Some(version) = this.reader.find_in_call(key, value) {
                if connection.port.poll_turn(context).is_pending() {
                    this.stage = Stage::Found { version, start };
                    return Poll::Pending;
                }
                this.stage = Stage::Over;
                connection.end_call(TimedCall::Read(1), start);
                return Poll::Ready(Ok(version));
            }
            this.look_up(start);
        }
        this.poll_on(context)
    }
}
