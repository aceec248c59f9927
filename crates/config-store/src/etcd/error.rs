//! The failures of an etcd, and their consequences for a transaction.

use crate::backend::Failure;

/// Whether a request may have reached etcd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// The request may have reached etcd.
    Yes,
    /// The request cannot have changed anything.
    No,
}

/// An etcd that does not answer, or answers unlike an etcd.
#[derive(Debug, thiserror::Error)]
pub enum EtcdError {
    /// No server listens at the endpoint.
    #[error("etcd at {endpoint} is not reached: {reason}")]
    NotReached {
        /// `HOST:PORT`.
        endpoint: String,
        /// The system's reason.
        reason: String,
    },
    /// The connection failed, or the time was over, before the answer arrived.
    #[error("etcd at {endpoint} did not answer: {reason}")]
    NoAnswer {
        /// `HOST:PORT`.
        endpoint: String,
        /// The failure.
        reason: String,
    },
    /// The connection over TLS failed: one side does not trust the other, or does not speak TLS.
    #[error("etcd at {endpoint} is not trusted, or does not trust: {reason}")]
    Tls {
        /// `HOST:PORT`.
        endpoint: String,
        /// The failure and the remedy.
        reason: String,
    },
    /// etcd refuses the request.
    #[error("etcd at {endpoint} refuses: {message} (HTTP status {status}, code {code})")]
    Refused {
        /// `HOST:PORT`.
        endpoint: String,
        /// The status of HTTP.
        status: u16,
        /// The code of gRPC; 0 without a code.
        code: u64,
        /// etcd's words.
        message: String,
    },
    /// An answer that no etcd gives.
    #[error("the server at {endpoint} is not an etcd of version 3.4 or later: {reason}")]
    Garbage {
        /// `HOST:PORT`.
        endpoint: String,
        /// The fault of the answer.
        reason: String,
    },
    /// Another cluster of etcd answers.
    #[error(
        "etcd at {endpoint} belongs to cluster {found}, and the others to cluster {expected}: correct the address, or start this process again if etcd was replaced"
    )]
    OtherCluster {
        /// `HOST:PORT`.
        endpoint: String,
        /// The cluster of the endpoint.
        found: u64,
        /// The cluster of the earlier answers.
        expected: u64,
    },
    /// etcd has lost changes.
    #[error(
        "etcd at {endpoint} is at revision {found}, and was at {expected}: etcd was restored from a copy; give the cluster another nonce, and start this process again"
    )]
    WentBack {
        /// `HOST:PORT`.
        endpoint: String,
        /// The revision of the endpoint.
        found: u64,
        /// The revision that was seen earlier.
        expected: u64,
    },
    /// A transaction may have been done.
    #[error("{0}")]
    Unknown(Box<EtcdError>),
    /// A watch ended without a reason.
    #[error("etcd at {endpoint} ended a watch: {reason}")]
    WatchEnded {
        /// `HOST:PORT`.
        endpoint: String,
        /// The available information.
        reason: String,
    },
}

/// Codes of gRPC with which etcd refuses before it does anything.
const INVALID_ARGUMENT: u64 = 3;
const PERMISSION_DENIED: u64 = 7;
const RESOURCE_EXHAUSTED: u64 = 8;
const FAILED_PRECONDITION: u64 = 9;
const UNIMPLEMENTED: u64 = 12;
const UNAVAILABLE: u64 = 14;
const UNAUTHENTICATED: u64 = 16;
/// The words of etcd about a token from before a change of users or roles.
const OLD_TOKEN: &str = "revision of auth store is old";

impl EtcdError {
    /// Whether the request was refused before anything was done.
    fn is_refusal(&self) -> bool {
        let Self::Refused { status, code, .. } = self else {
            return false;
        };
        match *code {
            // The words are not etcd's own: a proxy, or a path that does not exist.
            0 => (400..500).contains(status) && *status != 408,
            // An etcd that runs out of space executes the transaction that exceeds it, and refuses it afterwards:
            // RESOURCE_EXHAUSTED is not a refusal.
            code => [
                INVALID_ARGUMENT,
                PERMISSION_DENIED,
                FAILED_PRECONDITION,
                UNIMPLEMENTED,
                UNAUTHENTICATED,
            ]
            .contains(&code),
        }
    }

    /// Whether the request lacked a valid token.
    pub fn wants_a_token(&self) -> bool {
        let Self::Refused { code, message, .. } = self else {
            return false;
        };
        *code == UNAUTHENTICATED || *code == INVALID_ARGUMENT && message.contains(OLD_TOKEN)
    }

    /// The error of a transaction that was, or was not, sent.
    pub fn after(self, sent: Sent) -> Self {
        match &self {
            Self::NotReached { .. } => self,
            _ if sent == Sent::No || self.is_refusal() => self,
            _ => Self::Unknown(Box::new(self)),
        }
    }

    /// Whether nothing was done and another endpoint, or the same one later, may succeed.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::NotReached { .. } | Self::NoAnswer { .. } | Self::WatchEnded { .. } => true,
            Self::Refused { status, code, .. } => {
                [RESOURCE_EXHAUSTED, UNAVAILABLE].contains(code) || *status >= 500
            }
            _ => false,
        }
    }

    /// Whether nothing was done and another endpoint may be asked. A member with an expired certificate keeps no one
    /// from the others, and neither does a server that is not an etcd.
    pub fn is_of_one_endpoint(&self) -> bool {
        self.is_passing() || self.is_of_no_etcd() || matches!(self, Self::Tls { .. })
    }

    /// Whether the answer has the shape of no answer of etcd. etcd refuses with a code of gRPC.
    fn is_of_no_etcd(&self) -> bool {
        matches!(self, Self::Garbage { .. } | Self::Refused { code: 0, .. })
    }
}

impl From<EtcdError> for Failure {
    fn from(error: EtcdError) -> Self {
        let reason = error.to_string();
        match error {
            EtcdError::Unknown(_) => Self::Unknown(reason),
            error if error.is_passing() => Self::Passing(reason),
            _ => Self::Lasting(reason),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(status: u16, code: u64) -> EtcdError {
        EtcdError::Refused {
            endpoint: "h:1".to_owned(),
            status,
            code,
            message: "no".to_owned(),
        }
    }

    #[test]
    fn the_outcome_of_a_transaction_is_unknown_unless_etcd_refused_it_before_it_began() {
        let is_unknown = |error: EtcdError| matches!(error.after(Sent::Yes), EtcdError::Unknown(_));
        for (status, code) in [(400, 3), (403, 7), (412, 9), (501, 12), (401, 16), (404, 0)] {
            assert!(!is_unknown(refused(status, code)), "{status} {code}");
        }
        // Space that ran out in the transaction, an exceeded deadline, a leader that was lost, any internal error, and
        // any report of a proxy about the servers behind it.
        for (status, code) in [
            (429, 8),
            (504, 4),
            (503, 14),
            (500, 2),
            (500, 13),
            (502, 0),
            (408, 0),
            (200, 0),
        ] {
            assert!(is_unknown(refused(status, code)), "{status} {code}");
        }
        let endpoint = || "h:1".to_owned();
        let reason = || "broken".to_owned();
        assert!(!is_unknown(EtcdError::NotReached {
            endpoint: endpoint(),
            reason: reason()
        }));
        assert!(is_unknown(EtcdError::NoAnswer {
            endpoint: endpoint(),
            reason: reason()
        }));
        assert!(is_unknown(EtcdError::Garbage {
            endpoint: endpoint(),
            reason: reason()
        }));
    }

    #[test]
    fn an_expired_token_is_distinguished_from_other_refusals() {
        let wants_a_token = |status, code, message: &str| {
            let error = EtcdError::Refused {
                endpoint: "h:1".to_owned(),
                status,
                code,
                message: message.to_owned(),
            };
            error.wants_a_token()
        };
        assert!(wants_a_token(401, 16, "etcdserver: invalid auth token"));
        let old = "etcdserver: revision of auth store is old";
        assert!(wants_a_token(400, 3, old));
        let large = "etcdserver: request is too large";
        assert!(!wants_a_token(400, 3, large));
    }
}
