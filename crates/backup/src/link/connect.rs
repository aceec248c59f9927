//! The beginning of a link: hello, welcome, and the first notice, which describes the backup.

use std::rc::Rc;

use stonecast_base::Nanoseconds;
use stonecast_fabric::{DeviceError, LocalSpan, Port, Runtime};
use stonecast_media::Durability;
use stonecast_persist::execute::{Agreement, Appender, NoAgreement};
use stonecast_replication::AppendKey;
use stonecast_session::{ConnectError, Endpoint, Listener, Queues, Staging};

use super::ears::{Ears, NOTICES, Trouble};
use super::pieces::Pieces;
use super::sent::Sent;

use super::{BackupLink, Limits, Source};
use crate::hello::{Hello, Unheard, Welcome};

/// Options of a link.
#[derive(Clone, Debug)]
pub struct LinkOptions {
    /// The node that connects.
    pub hello: Hello,
    /// The failure that entries have to outlive.
    pub durability: Durability,
    /// The most entries that are appended and not reported.
    pub entries_max: u32,
    /// Bytes of the memory from which the link sends entries.
    pub staging_size: u64,
    /// The longest wait for the backup's first notice. A backup that first has to fence an earlier session of this node
    /// takes longer.
    pub patience_ns: Nanoseconds,
    /// The number of retries of a SEND while the backup has no receive buffer. A sender that pays seldom needs one.
    pub rnr_retry_count: u32,
    /// The pause before each such retry.
    pub rnr_retry_delay_ns: Nanoseconds,
}

impl LinkOptions {
    /// Time for which the backup may have no receive buffer.
    pub fn unready_ns(&self) -> Nanoseconds {
        self.rnr_retry_delay_ns
            .saturating_mul(self.rnr_retry_count.into())
    }
}

/// The reason why no link was made. Nothing of the connection is left.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotLinked {
    /// The backup refused and gave its reason, or nothing listens there.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The backup speaks another protocol.
    #[error(transparent)]
    Unheard(#[from] Unheard),
    /// The connection ended before the backup's first notice.
    #[error("the backup accepted, and said nothing of itself: {0}")]
    NoTerms(#[from] Trouble),
    /// The backup does not give the entries what they need.
    #[error(transparent)]
    NoAgreement(#[from] NoAgreement),
    /// The backup takes messages that have no room for a record, or this side has no memory for longer ones.
    #[error("messages of {longest} bytes have no room for a byte of a record behind its header")]
    ShortMessages {
        /// Bytes of the longest message.
        longest: u32,
    },
    /// The backup sent nothing for as long as this side waits.
    #[error("no word from {address} for {waited_ns} ns")]
    Silent {
        /// The address.
        address: String,
        /// The time.
        waited_ns: Nanoseconds,
    },
    /// The device of this side refused a call.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

const SCRATCH_SIZE: u32 = 8;

impl BackupLink {
    /// Connects to the backup at `address`, and agrees on a plan. `port` holds `2 * entries_max` more completions of
    /// sends, and a few of receives. A future that is dropped leaves nothing.
    ///
    /// # Errors
    /// [`NotLinked`] names the reason, in the backup's own words if the backup refused.
    pub async fn connect(
        port: &Rc<Port>,
        runtime: &Rc<dyn Runtime>,
        address: &str,
        options: &LinkOptions,
    ) -> Result<Self, NotLinked> {
        let waited_ns = options.patience_ns;
        let made = runtime.within(waited_ns, Self::make(port, address, options));
        made.await.unwrap_or_else(|_elapsed| {
            Err(NotLinked::Silent {
                address: address.to_owned(),
                waited_ns,
            })
        })
    }

    async fn make(
        port: &Rc<Port>,
        address: &str,
        options: &LinkOptions,
    ) -> Result<Self, NotLinked> {
        let endpoint = Endpoint::new(
            port,
            Queues {
                // A batch has at least one entry, and a READ after its entries.
                send_capacity: 2 * options.entries_max,
                receive_capacity: NOTICES,
                shared_receive_queue: None,
                windows: false,
                rnr_retry_count: options.rnr_retry_count,
                rnr_retry_delay_ns: options.rnr_retry_delay_ns,
            },
        )?;
        let mut ears = Ears::open(&endpoint)?;
        let memory = endpoint.allocate(options.staging_size)?;
        let scratch = LocalSpan {
            region: endpoint.allocate(SCRATCH_SIZE.into())?,
            offset: 0,
            size: SCRATCH_SIZE,
        };
        let said = endpoint.connect(address, &options.hello.say()).await?;
        let welcome = Welcome::hear(&said)?;
        ears.connected(welcome.connection);
        let (terms, credits, told) = loop {
            match ears.take(endpoint.inbox())? {
                Some((notice, credits)) => match notice.terms {
                    Some(terms) => break (terms, credits, notice.told),
                    None => return Err(Trouble::NotANotice { size: 0 }.into()),
                },
                None => endpoint.inbox().activity().await,
            }
        };
        let agreement = Agreement::hear(&terms, options.durability)?;
        let terms = agreement.receiving().terms;
        let appender = Appender::new(port.clone(), endpoint.qp(), scratch, &agreement)?;
        appender.add_credits(credits);
        let mut sent = Sent::new(!agreement.plan().is_one_sided());
        sent.note_all(told)?;
        let longest = u64::from(terms.message_size_max).min(options.staging_size);
        let longest = longest as u32;
        let pieces = Pieces::in_messages_of(longest).ok_or(NotLinked::ShortMessages { longest })?;
        Ok(Self {
            listener: Listener::new(endpoint.inbox()),
            heard: None,
            endpoint,
            connection: welcome.connection,
            key: AppendKey::new(welcome.key, options.hello.nonce),
            appender,
            ears,
            source: Source {
                memory,
                staging: Staging::new(options.staging_size),
            },
            sent,
            begun: None,
            limits: Limits {
                entries_max: options.entries_max as usize,
                pieces,
                grain: terms.grain,
            },
            trouble: None,
        })
    }
}
