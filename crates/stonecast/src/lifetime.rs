//! The lifetime of a key.

use std::time::Duration;

use stonecast_kv::Expiry;

/// The time for which a key is present. The server's time decides, not the clock of the program.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let server = stonecast::Server::builder(folder.path().join("pool"))
/// #     .durability(stonecast::Durability::Process).serve()?;
/// # let url = server.address().to_string();
/// use std::time::Duration;
/// use stonecast::{Batch, Expiry, Lifetime, Write, Written};
///
/// let client = stonecast::blocking::connect(&url)?;
/// client.put_with("session", "ada", Write::new().expires_in(Duration::from_secs(60)))?;
/// let entry = client.get("session")?.expect("it has just begun");
/// let moment = entry.expires.expect("the put has named a time");
/// assert!(moment.time() > std::time::UNIX_EPOCH);
/// assert_eq!(Expiry::at_ms(moment.ms()), Some(moment));
///
/// // Other keys can end at the same moment.
/// let mut batch = Batch::new();
/// batch.put_until(b"basket", b"two pins", Some(moment));
/// client.apply(&batch)?;
/// assert_eq!(client.get("basket")?.expect("it is there").expires, Some(moment));
///
/// // Each use of the session prolongs it, unless another client has written it meanwhile.
/// let hour = Lifetime::For(Duration::from_secs(3600));
/// let touched = client.touch("session", hour, Some(entry.version))?;
/// assert!(matches!(touched, Written::Done(_)));
/// let late = client.touch("session", Lifetime::Forever, Some(entry.version))?;
/// assert!(matches!(late, Written::Conflict(Some(_))));
///
/// // A plain put removes the moment.
/// client.put("session", "ada")?;
/// assert_eq!(client.get("session")?.expect("it is there").expires, None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Lifetime {
    /// Until the key is deleted.
    #[default]
    Forever,
    /// For this time from now, in whole milliseconds, rounded up.
    For(Duration),
    /// Until this moment. After it, the key is absent at once.
    Until(Expiry),
}

impl Lifetime {
    /// The moment at which the lifetime ends. `server_ms` is awaited if the server's time is needed.
    pub(crate) async fn end<E>(
        self,
        server_ms: impl Future<Output = Result<u64, E>>,
    ) -> Result<Option<Expiry>, E> {
        let time = match self {
            Self::Forever => return Ok(None),
            Self::Until(moment) => return Ok(Some(moment)),
            Self::For(time) => time,
        };
        let ms = u64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
        let now_ms = server_ms.await?;
        Ok(Expiry::at_ms(now_ms.saturating_add(ms)))
    }
}
