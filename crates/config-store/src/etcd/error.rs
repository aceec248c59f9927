//! What can go wrong with an etcd, and what that says about a transaction.

use crate::backend::Failure;

/// Whether a request may have reached etcd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// It may have.
    Yes,
    /// It cannot have changed anything.
    No,
}

/// An etcd that does not answer, or not as an etcd does.
#[derive(Debug, thiserror::Error)]
pub enum EtcdError {
    /// Nobody listens there.
    #[error("etcd at {endpoint} is not reached: {reason}")]
    NotReached {
        /// `HOST:PORT`.
        endpoint: String,
        /// The system's reason.
        reason: String,
    },
    /// The connection failed, or time was over, before the answer was there.
    #[error("etcd at {endpoint} did not answer: {reason}")]
    NoAnswer {
        /// `HOST:PORT`.
        endpoint: String,
        /// What happened.
        reason: String,
    },
    /// There is no connection over TLS: one side does not trust the other, or does not speak TLS.
    #[error("etcd at {endpoint} is not trusted, or does not trust: {reason}")]
    Tls {
        /// `HOST:PORT`.
        endpoint: String,
        /// What failed, and what to do.
        reason: String,
    },
    /// etcd says no.
    #[error("etcd at {endpoint} refuses: {message} (HTTP status {status}, code {code})")]
    Refused {
        /// `HOST:PORT`.
        endpoint: String,
        /// Of HTTP.
        status: u16,
        /// Of gRPC; 0: none.
        code: u64,
        /// etcd's words.
        message: String,
    },
    /// An answer that etcd does not give.
    #[error("what answers at {endpoint} is no etcd of version 3.4 or later: {reason}")]
    Garbage {
        /// `HOST:PORT`.
        endpoint: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Another cluster of etcd answers.
    #[error(
        "etcd at {endpoint} belongs to cluster {found}, and the others to cluster {expected}: correct the address, or start this process again if etcd was replaced"
    )]
    OtherCluster {
        /// `HOST:PORT`.
        endpoint: String,
        /// Its cluster.
        found: u64,
        /// The cluster of the answers before.
        expected: u64,
    },
    /// etcd forgot something.
    #[error(
        "etcd at {endpoint} is at revision {found}, and was at {expected}: etcd was restored from a copy; give the cluster another nonce, and start this process again"
    )]
    WentBack {
        /// `HOST:PORT`.
        endpoint: String,
        /// Its revision.
        found: u64,
        /// The revision that was seen before.
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
        /// What is known about it.
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
/// What etcd says of a token from before a change of users or roles.
const OLD_TOKEN: &str = "revision of auth store is old";

impl EtcdError {
    /// Whether the request was refused before anything was done.
    fn is_refusal(&self) -> bool {
        let Self::Refused { status, code, .. } = self else {
            return false;
        };
        match *code {
            // Not etcd's own words: a proxy, or a path that does not exist.
            0 => (400..500).contains(status) && *status != 408,
            // An etcd that runs out of space does the transaction that is too much, and refuses it then: RESOURCE_EXHAUSTED is no
            // refusal.
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

    /// Whether the request lacked a token that counts.
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

    /// Whether nothing was done and another endpoint, or this one later, may do better.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::NotReached { .. } | Self::NoAnswer { .. } | Self::WatchEnded { .. } => true,
            Self::Refused { status, code, .. } => {
                [RESOURCE_EXHAUSTED, UNAVAILABLE].contains(code) || *status >= 500
            }
            _ => false,
        }
    }

    /// Whether nothing was done and another endpoint may be asked. One member of which the certificate has expired keeps nobody from the
    /// others.
    pub fn is_of_one_endpoint(&self) -> bool {
        self.is_passing() || matches!(self, Self::Tls { .. })
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
        // Space that ran out in the transaction, time over, a leader that went, anything internal, and whatever a proxy says about what is behind it.
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
    fn a_token_that_does_not_count_any_more_is_told_from_other_refusals() {
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
