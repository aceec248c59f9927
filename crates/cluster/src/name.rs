//! Names of nodes.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Size of the longest name in bytes.
const SIZE_MAX: usize = 64;

/// The name of a node: 1 to 64 letters, digits, dots, dashes and underscores of ASCII, the first of them a letter or a
/// digit.
///
/// ```
/// # use stonecast_cluster::NodeName;
/// let name: NodeName = "rack2-node.7".parse()?;
/// assert_eq!(name.as_str(), "rack2-node.7");
/// assert!("-x".parse::<NodeName>().is_err());
/// # Ok::<(), stonecast_cluster::InvalidName>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct NodeName(Arc<str>);

/// A text that is not the name of a node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{found:?} is no name of a node: use 1 to {SIZE_MAX} letters, digits, dots, dashes and underscores, and begin with a \
     letter or a digit"
)]
pub struct InvalidName {
    /// The text.
    pub found: String,
}

impl NodeName {
    /// The name as text.
    #[inline]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for NodeName {
    type Error = InvalidName;

    fn try_from(text: String) -> Result<Self, InvalidName> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
        let begins_well = text
            .bytes()
            .next()
            .is_some_and(|byte| byte.is_ascii_alphanumeric());
        if begins_well && text.len() <= SIZE_MAX && text.bytes().all(allowed) {
            Ok(Self(text.into()))
        } else {
            Err(InvalidName { found: text })
        }
    }
}

impl FromStr for NodeName {
    type Err = InvalidName;

    fn from_str(text: &str) -> Result<Self, InvalidName> {
        Self::try_from(text.to_owned())
    }
}

impl From<NodeName> for String {
    fn from(name: NodeName) -> Self {
        name.as_str().to_owned()
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(&self.0)
    }
}
