//! The client of both baselines.

use std::rc::Rc;

use stonecast_fabric::Port;

use crate::PublishedError;
use crate::baseline::Scheme;
use crate::geometry::Geometry;
use crate::hub::Hub;
use crate::link::Link;
use crate::message::Outcome;
use crate::object::{Ask, Record};

/// A connection to a [`BaselineServer`](crate::BaselineServer): one operation at a time.
pub struct BaselineClient {
    link: Link,
    scheme: Scheme,
    geometry: Geometry,
}

impl BaselineClient {
    /// Connects to the server of `scheme` at `address`, whose keys and values are at most as long as those of
    /// `largest`.
    pub async fn connect(
        port: Rc<Port>,
        address: &str,
        scheme: Scheme,
        largest: &Geometry,
    ) -> Result<Self, PublishedError> {
        let link = Link::connect(port, address, Hub::message_size(largest)).await?;
        let geometry = link.welcome.geometry;
        Ok(Self {
            link,
            scheme,
            geometry,
        })
    }

    /// Looks up `key`. Returns whether it is present.
    pub async fn get(&mut self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, PublishedError> {
        self.geometry.check_sizes(key, None)?;
        let answer = self
            .link
            .ask(
                &Record {
                    ask: Ask::Get,
                    key,
                    value: b"",
                }
                .encode(),
            )
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

    /// Stores `value` under `key`.
    pub async fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), PublishedError> {
        self.geometry.check_sizes(key, Some(value))?;
        self.write(Record {
            ask: Ask::Put,
            key,
            value,
        })
        .await
    }

    /// Removes `key`, if it is present.
    pub async fn delete(&mut self, key: &[u8]) -> Result<(), PublishedError> {
        self.geometry.check_sizes(key, None)?;
        self.write(Record {
            ask: Ask::Delete,
            key,
            value: b"",
        })
        .await
    }

    async fn write(&mut self, record: Record<'_>) -> Result<(), PublishedError> {
        let bytes = record.encode();
        let answer = match self.scheme {
            Scheme::RedoLogging => self.link.ask(&bytes).await?,
            Scheme::ReadAfterWrite => {
                self.link
                    .ask(
                        &Record {
                            ask: Ask::Place,
                            value: b"",
                            ..record
                        }
                        .encode(),
                    )
                    .await?
            }
        };
        match answer.outcome()? {
            Outcome::Done if self.scheme == Scheme::ReadAfterWrite => {
                self.link.write_and_read(answer.number, &bytes).await
            }
            Outcome::Done => Ok(()),
            Outcome::Full => Err(PublishedError::Full),
            _ => Err(PublishedError::Protocol(
                "a message that is not the answer to a write",
            )),
        }
    }
}
