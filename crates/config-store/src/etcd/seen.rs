//! The knowledge that the connections of one store share about its etcd.

use super::error::EtcdError;
use super::messages::Header;

/// The state of the etcd, as far as its answers told, and the standing of its members.
pub struct Seen {
    /// The cluster of all answers.
    cluster: Option<u64>,
    /// The highest revision of all answers.
    revision: u64,
    /// The member that answered last: the next request begins there.
    pub answering: usize,
    members: Vec<Standing>,
}

#[derive(Clone, Default)]
struct Standing {
    /// Counts the failures of the member.
    failures: u64,
    /// Whether the member proved in a read that it belongs to the cluster, and has not failed since.
    is_known: bool,
}

/// The knowledge at the moment before a request is sent: its answer is judged by that.
#[derive(Clone, Copy)]
pub struct Before {
    revision: u64,
    failures: u64,
}

impl Seen {
    /// Nothing is known of `members` members.
    pub fn new(members: usize) -> Self {
        Self {
            cluster: None,
            revision: 0,
            answering: 0,
            members: vec![Standing::default(); members],
        }
    }

    /// The knowledge before a request to `member`.
    pub fn before(&self, member: usize) -> Before {
        Before {
            revision: self.revision,
            failures: self.members[member].failures,
        }
    }

    /// Whether `member` proved in a read that it belongs to the cluster, and has not failed since.
    pub fn knows(&self, member: usize) -> bool {
        self.members[member].is_known
    }

    /// Notes that `member` proved in a read that it belongs to the cluster. The proof counts unless the member failed
    /// since the read began: another server may have taken its place after that answer.
    pub fn proven(&mut self, member: usize, before: Before) {
        let standing = &mut self.members[member];
        standing.is_known |= standing.failures == before.failures;
    }

    /// Notes that a request to `member` failed.
    pub fn failed(&mut self, member: usize) {
        let standing = &mut self.members[member];
        standing.failures += 1;
        standing.is_known = false;
    }

    /// Compares the header of an answer from `endpoint` with the knowledge before the request.
    pub fn check(
        &mut self,
        endpoint: &str,
        header: &Header,
        before: Before,
    ) -> Result<(), EtcdError> {
        let cluster = *self.cluster.get_or_insert(header.cluster_id);
        if cluster != header.cluster_id {
            return Err(EtcdError::OtherCluster {
                endpoint: endpoint.to_owned(),
                found: header.cluster_id,
                expected: cluster,
            });
        }
        if header.revision < before.revision {
            return Err(EtcdError::WentBack {
                endpoint: endpoint.to_owned(),
                found: header.revision,
                expected: before.revision,
            });
        }
        self.revision = self.revision.max(header.revision);
        Ok(())
    }
}
