//! Structures of lock domains, as transactions and look-ups name them.

use std::marker::PhantomData;
use std::sync::Arc;

use stonecast_structures::DomainIdentity;

use super::error::Error;
use super::types::Shape;

/// The identity of a structure among the structures of all back-ends. Each lock domain counts its structures from the
/// start, so a number alone is ambiguous.
#[derive(Clone, Debug)]
pub(super) struct MemberIdentity {
    pub domain: DomainIdentity,
    pub number: u32,
    /// The name, behind that of the lock domain.
    pub name: Arc<str>,
}

/// A structure of a [`Domain`](super::Domain), for its transactions. The value outlives the tenure: a later writer of
/// the lock domain also accepts it.
pub struct Member<S: Shape> {
    identity: MemberIdentity,
    shape: PhantomData<S>,
}

impl MemberIdentity {
    /// The error for a structure that does not belong to the lock domain `asked` with this name.
    pub fn refused_by(&self, (asked, name): (&DomainIdentity, &str)) -> Error {
        let own = self.name.split('/').next().unwrap_or_default();
        let back_end = match self.domain.has_content_of(asked) {
            true => "",
            false => " of another back-end",
        };
        Error::OtherDomain {
            name: self.name.to_string(),
            found: format!("the lock domain {own:?}{back_end}"),
            asked: format!("the lock domain {name:?}"),
        }
    }
}

impl<S: Shape> Member<S> {
    pub(super) fn new(identity: MemberIdentity) -> Self {
        Self {
            identity,
            shape: PhantomData,
        }
    }

    pub(super) fn identity(&self) -> &MemberIdentity {
        &self.identity
    }

    /// The name, behind that of the lock domain.
    pub fn name(&self) -> &str {
        &self.identity.name
    }
}
