//! Erda's client.

use std::rc::Rc;

use stonecast_base::Nanoseconds;
use stonecast_fabric::{Port, Runtime};

use crate::PublishedError;
use crate::erda::heads::head_of;
use crate::erda::word::Word;
use crate::geometry::Geometry;
use crate::hub::Hub;
use crate::link::Link;
use crate::message::{DELETE, Kind, Message, Outcome, PUT};
use crate::object::{encode_object, object_size, parse_object};
use crate::table::{ENTRY_SIZE, Entry, NEIGHBOURHOOD, bucket_of, entries_of};

/// Number of times that a reader reads an object again that has not arrived and has no older version (paper section
/// 4.3: "just wait a moment and try to read the same address again", without a duration or a number).
const LOOKS_MAX: u32 = 16;
const LOOK_PAUSE_NS: Nanoseconds = 2_000;

/// A connection to an [`ErdaServer`](crate::ErdaServer): one operation at a time.
pub struct ErdaClient {
    link: Link,
    runtime: Rc<dyn Runtime>,
    geometry: Geometry,
    /// Start of each head's region, as last known.
    bases: Vec<u64>,
    cleaning: Vec<bool>,
}

impl ErdaClient {
    /// Connects to the server at `address`, whose keys and values are at most as long as those of `largest`.
    pub async fn connect(
        port: Rc<Port>,
        runtime: Rc<dyn Runtime>,
        address: &str,
        largest: &Geometry,
    ) -> Result<Self, PublishedError> {
        let link = Link::connect(port, address, Hub::message_size(largest)).await?;
        let geometry = link.welcome.geometry;
        let mut bases = Vec::new();
        for head in 0..geometry.heads {
            let mut word = [0; 8];
            link.read(geometry.head_offset(head), &mut word).await?;
            bases.push(u64::from_le_bytes(word));
        }
        Ok(Self {
            link,
            runtime,
            geometry,
            bases,
            cleaning: vec![false; geometry.heads.into()],
        })
    }

    /// Looks up `key`. Returns whether it is present. Takes two one-sided READs, and a third if the newest object is
    /// broken.
    pub async fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, PublishedError> {
        self.geometry.check_sizes(key, None)?;
        for _ in 0..LOOKS_MAX {
            self.take_notices()?;
            let head = head_of(key, self.geometry.heads);
            if self.cleaning[usize::from(head)] {
                return self.get_by_message(key, value).await;
            }
            let Some(entry) = self.read_entry(key).await? else {
                return Ok(false);
            };
            let word = Word(entry.word);
            if let Some(found) = self.read_object(head, word.newest(), key, value).await? {
                return Ok(found);
            }
            if let Some(found) = self.read_object(head, word.older(), key, value).await? {
                let broken = word.newest().unwrap_or(0);
                self.link
                    .tell(&Message {
                        number: broken,
                        ..Message::request(Kind::Repair, key, b"")
                    })
                    .await?;
                return Ok(found);
            }
            let pause = self.runtime.now() + LOOK_PAUSE_NS;
            self.runtime.sleep_until(pause).await;
        }
        Ok(false)
    }

    /// Stores `value` under `key`. When it returns, the server's NIC has the object; nothing more
    /// is promised.
    pub async fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), PublishedError> {
        self.geometry.check_sizes(key, Some(value))?;
        self.write(PUT, key, Some(value)).await.map(drop)
    }

    /// Removes `key`. Returns whether it was present.
    pub async fn delete(&mut self, key: &[u8]) -> Result<bool, PublishedError> {
        self.geometry.check_sizes(key, None)?;
        self.write(DELETE, key, None).await
    }

    async fn write(
        &mut self,
        operation: u8,
        key: &[u8],
        value: Option<&[u8]>,
    ) -> Result<bool, PublishedError> {
        self.take_notices()?;
        let head = usize::from(head_of(key, self.geometry.heads));
        if !self.cleaning[head] {
            let answer = self
                .link
                .ask_by_write(&[&[operation], key].concat())
                .await?;
            match answer.outcome()? {
                Outcome::Done => {
                    self.link
                        .write(answer.number, &encode_object(key, value))
                        .await?;
                    return Ok(true);
                }
                Outcome::Absent => return Ok(false),
                Outcome::Full => return Err(PublishedError::Full),
                Outcome::Cleaning => self.cleaning[head] = true,
            }
        }
        let kind = if value.is_some() {
            Kind::Put
        } else {
            Kind::Delete
        };
        let answer = self
            .link
            .ask(&Message::request(kind, key, value.unwrap_or_default()).encode())
            .await?;
        match answer.outcome()? {
            Outcome::Done => Ok(true),
            Outcome::Absent => Ok(false),
            Outcome::Full => Err(PublishedError::Full),
            Outcome::Cleaning => Err(PublishedError::Protocol(
                "a request with its data need not wait for the cleaner",
            )),
        }
    }

    async fn get_by_message(
        &mut self,
        key: &[u8],
        value: &mut Vec<u8>,
    ) -> Result<bool, PublishedError> {
        let answer = self
            .link
            .ask(&Message::request(Kind::Get, key, b"").encode())
            .await?;
        match answer.outcome()? {
            Outcome::Done => {
                *value = answer.body;
                Ok(true)
            }
            Outcome::Absent => Ok(false),
            _ => Err(PublishedError::Protocol(
                "a message that is not the answer to a get",
            )),
        }
    }

    async fn read_entry(&self, key: &[u8]) -> Result<Option<Entry>, PublishedError> {
        let mut bytes = [0; (ENTRY_SIZE * NEIGHBOURHOOD) as usize];
        let offset =
            self.geometry.table().offset + bucket_of(key, self.geometry.buckets) * ENTRY_SIZE;
        self.link.read(offset, &mut bytes).await?;
        Ok(entries_of(&bytes).find(|entry| entry.is_of(key)))
    }

    /// Reads the object at `offset` of a head. Returns whether it holds a value, or `None` if it is
    /// not whole.
    async fn read_object(
        &self,
        head: u8,
        offset: Option<u64>,
        key: &[u8],
        value: &mut Vec<u8>,
    ) -> Result<Option<bool>, PublishedError> {
        let Some(offset) = offset else {
            return Ok(None);
        };
        let Geometry {
            key_size,
            value_size,
            ..
        } = self.geometry;
        let mut bytes = vec![0; object_size(key_size, value_size)];
        self.link
            .read(self.bases[usize::from(head)] + offset, &mut bytes)
            .await?;
        Ok(parse_object(&bytes, key_size, value_size)
            .filter(|object| object.key == key)
            .map(|object| match object.value {
                Some(found) => {
                    value.clear();
                    value.extend_from_slice(found);
                    true
                }
                None => false,
            }))
    }

    fn take_notices(&mut self) -> Result<(), PublishedError> {
        while let Some(notice) = self.link.take_notice()? {
            let head = usize::from(notice.detail);
            if head >= self.cleaning.len() {
                return Err(PublishedError::Protocol("an unknown head"));
            }
            match notice.kind {
                Kind::CleaningBegins => self.cleaning[head] = true,
                Kind::CleaningEnds => {
                    self.cleaning[head] = false;
                    self.bases[head] = notice.number;
                }
                _ => return Err(PublishedError::Protocol("not for a client")),
            }
        }
        Ok(())
    }
}
