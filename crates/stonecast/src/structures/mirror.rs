//! A back-end's mirror: the attachment, the promotion, and the reasons why neither happens.

use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use stonecast_base::Nanoseconds;
use stonecast_fabric::{Port, Runtime};
use stonecast_media::Pool;
use stonecast_structures::{
    AttachError, DetachError, FRONT_END_COMPLETIONS, FrontEndError, Medium, MirrorLink, MirrorLost,
    PromoteError, StandingError, StandingRecordError, StandingStore,
};

use super::pool::content_of;
use crate::address::Address;
use crate::connector::{Connector, nanoseconds};
use crate::error::{Effect, Error, ErrorKind};
use crate::open_device::OpenDevice;

/// The time for which a back-end waits for a mirror that is about to start.
const PATIENCE: Duration = Duration::from_secs(10);
/// The time between two attempts to reach the mirror.
const PAUSE: Duration = Duration::from_millis(50);

/// The reason why a mirror, or a back-end with a mirror, refuses or fails.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MirrorError {
    /// The back-end does not start with this mirror. Nothing was served.
    #[error("mirror {address}: {reason}")]
    Attach {
        /// The mirror.
        address: Address,
        /// The reason.
        reason: AttachError,
    },
    /// The pool may not be served in this way. Nothing was served.
    #[error(transparent)]
    Standing(#[from] StandingError),
    /// The standing record does not permit the pool to be served, or to be served any longer.
    #[error(transparent)]
    Record(#[from] StandingRecordError),
    /// The mirror was lost while the back-end served. Nothing was acknowledged after that, and everything that was
    /// acknowledged before is durable in both.
    #[error(transparent)]
    Lost(#[from] MirrorLost),
    /// The pool was to be a mirror, and has content of its own.
    #[error(
        "{} holds data structures that were made there, and becomes no copy of others: give the mirror an empty folder",
        data.display()
    )]
    OwnContent {
        /// The pool.
        data: PathBuf,
    },
    /// A mirror has no mirror.
    #[error("a server is a mirror, or has one: leave one of the settings out")]
    Both,
    /// Mirror and back-end were to talk over two kinds of devices.
    #[error(
        "the mirror is to be reached at {mirror}, and the back-end listens at {listen}: both addresses have to be of one kind, shm: or verbs:"
    )]
    OtherKind {
        /// The address of the mirror.
        mirror: Address,
        /// The first address at which the back-end listens.
        listen: Address,
    },
    /// The pool was not detached, and stays as it was.
    #[error("{}: {reason}", data.display())]
    Detach {
        /// The pool.
        data: PathBuf,
        /// The reason.
        reason: DetachError,
    },
    /// The mirror was not promoted. If the connection was lost, the mirror may have been promoted; the next call tells.
    #[error("{address}: {reason}")]
    Promote {
        /// The mirror.
        address: Address,
        /// The reason.
        reason: PromoteError,
    },
    /// The mirror did not become the back-end in time: another process may still be the back-end.
    #[error(
        "{address} did not become the back-end in {limit:?}: its back-end lives and renews its lease, a process that writes to the mirror's memory is stopped, or the store of the standing record is away. End that process, or bring the store back, and ask again"
    )]
    NotInTime {
        /// The mirror.
        address: Address,
        /// The time that was given.
        limit: Duration,
    },
}

/// Makes the mirror at the address of `connector` the back-end, and returns its generation: the number of back-ends
/// that the content has had. Waits until the lease of the old back-end is over ([`super::Builder::mirror_lease`]), and
/// for at most `limit`. A server that already is a back-end remains one.
///
/// Everything that the old back-end has acknowledged is there. Its front-ends connect to the new one. The old back-end
/// never serves its content again as the back-end: its server can be started as the mirror of the new one
/// ([`super::Builder::as_mirror`]), and then loses the updates that it never acknowledged.
///
/// A crash of the mirror at any moment leaves a mirror or a promoted back-end; the next call continues.
///
/// ```
/// use std::time::Duration;
/// use stonecast::structures::{self, HashTable, Server};
/// use stonecast::{Connector, Durability};
///
/// # let folder = tempfile::tempdir()?;
/// # let (first, second) = (folder.path().join("first"), folder.path().join("second"));
/// let pool = |data| Server::builder(data).durability(Durability::Process).capacity(32 << 20);
/// let mirror = pool(second).as_mirror().serve()?;
/// let back_end = pool(first)
///     .mirror(mirror.address().clone())
///     .mirror_lease(Duration::from_secs(1))
///     .serve()?;
/// let connection = structures::connect(&back_end.address().to_string())?;
/// connection.run(async |session| {
///     session.writer::<HashTable<u64, u64>>("stock").await?.insert(&7, &2).await?; // durable in both
///     while session.metrics().await?.stat.mirror.bytes_to_copy > 0 {
///         // A new mirror is filled while the back-end serves.
///         session.within(Duration::from_millis(1), std::future::pending::<()>()).await;
///     }
///     Ok::<(), structures::Error>(())
/// })?;
///
/// back_end.shutdown()?; // or its machine is gone for good
/// let generation = structures::promote(Connector::to(mirror.address().clone()), Duration::from_secs(10))?;
/// assert_eq!(generation, 2);
/// # let connection = loop {
/// #     match structures::connect(&mirror.address().to_string()) {
/// #         Ok(connection) => break connection,
/// #         Err(_) => std::thread::sleep(Duration::from_millis(1)),
/// #     }
/// # };
/// # let found = connection.run(async |session| {
/// #     session.reader::<HashTable<u64, u64>>("stock").await?.get(&7).await
/// # })?;
/// # assert_eq!(found, Some(2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// [`MirrorError::Promote`]: no server listens there, or the mirror does not have everything.
/// [`MirrorError::NotInTime`]: the old back-end lives.
pub fn promote(connector: Connector, limit: Duration) -> Result<u64, Error> {
    let device = connector.open_device()?;
    promote_over(device, connector, limit)
}

/// Promotes the mirror as [`promote`] does, over a device of the caller.
///
/// ```no_run
/// use std::time::Duration;
///
/// use stonecast::{Connector, OpenDevice, structures};
/// use stonecast_fabric_shm::{ShmDevice, ShmOptions};
///
/// let device = OpenDevice::new(ShmDevice::new(ShmOptions::default())?);
/// let mirror = Connector::new("shm:/run/second")?;
/// let generation = structures::promote_over(device, mirror, Duration::from_secs(10))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// The errors of [`promote`].
pub fn promote_over(
    device: OpenDevice,
    connector: Connector,
    limit: Duration,
) -> Result<u64, Error> {
    let (executor, port) = device.drive(connector.spin_ns(), FRONT_END_COMPLETIONS)?;
    let (runtime, text) = (executor.runtime(), connector.address.to_string());
    let promoting = stonecast_structures::promote(&port, &runtime, &text);
    let promoted = executor.block_on(runtime.within(nanoseconds(limit), promoting));
    let address = connector.address;
    match promoted {
        Ok(promoted) => promoted.map_err(|reason| {
            let is_sent = matches!(reason, PromoteError::Connect(FrontEndError::Gone));
            let reason = MirrorError::Promote { address, reason };
            match is_sent {
                true => unknown(reason),
                false => reason.into(),
            }
        }),
        Err(_) => Err(unknown(MirrorError::NotInTime { address, limit })),
    }
}

/// The error of a request that may have been done; the next request tells.
pub(super) fn unknown(reason: MirrorError) -> Error {
    let kind = ErrorKind::Mirror(Box::new(reason));
    Error::new(kind, Effect::Unknown { token: None })
}

/// Connects the pool to its mirror, which may be about to start, and returns the medium with which the back-end has to
/// work. A mirror that the pool is bound to has everything when the call returns.
pub(super) async fn attach(
    pool: &Pool,
    port: &Rc<Port>,
    runtime: &Rc<dyn Runtime>,
    (mirror, lease_ns): (&Address, Nanoseconds),
    record: Option<&Rc<StandingStore>>,
) -> Result<(Rc<Medium>, Rc<MirrorLink>), Error> {
    let until = runtime.now().saturating_add(nanoseconds(PATIENCE));
    let text = mirror.to_string();
    loop {
        let (medium, of) = (content_of(pool, record)?, (&*text, lease_ns));
        let reason = match MirrorLink::attach(port, runtime.clone(), medium, of).await {
            Ok(attached) => return Ok(attached),
            Err(reason) => reason,
        };
        let is_absent = matches!(reason, AttachError::Connect(FrontEndError::Connect(_)));
        if !is_absent || runtime.now() >= until {
            let address = mirror.clone();
            return Err(MirrorError::Attach { address, reason }.into());
        }
        runtime.sleep(nanoseconds(PAUSE)).await;
    }
}

impl From<MirrorError> for Error {
    fn from(reason: MirrorError) -> Self {
        Self::nothing_done(ErrorKind::Mirror(Box::new(reason)))
    }
}
