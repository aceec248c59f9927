//! The connect of a client while the primaries change: a new program starts during a failover as often as at any other
//! time.

use futures_util::future::join;
use stonecast_kv::{ClusterError, StoreError};

use super::world::{Cluster, MS, SHARDS};
use super::{key_of, read};

/// The node that leads all shards before each failover, and the heir.
const FORMER: usize = 0;
const HEIR: usize = 1;
/// The moment of the failover, and the time that the client may take to notice the failover.
const FAILOVER_NS: u64 = 30 * MS;
const NOTICED_NS: u64 = 8 * MS;

impl Cluster {
    async fn all_led_by(&self, index: usize) {
        for shard in 0..SHARDS {
            self.hand_over(shard, index).await;
        }
    }

    fn kill(&self, index: usize) {
        self.nodes[index].process.kill();
        *self.nodes[index].server.borrow_mut() = None;
    }
}

/// Connects a client, lets an heir lead one shard later, and returns the time of the connect.
async fn connect_during_failover(cluster: &Cluster) -> u64 {
    let runtime = cluster.process.runtime();
    let begun = runtime.now();
    let connect = async {
        let client = cluster.connect(400 * MS).await.unwrap();
        (client, runtime.now() - begun)
    };
    let failover = async {
        runtime.sleep(FAILOVER_NS).await;
        cluster.hand_over(SHARDS - 1, HEIR).await;
    };
    let ((client, took), ()) = join(connect, failover).await;
    let name = key_of(&client, SHARDS - 1);
    client.put(&name, b"value").await.unwrap();
    assert_eq!(read(&client, &name).await, Some(b"value".to_vec()));
    took
}

/// Fails if a connect tries each primary once.
#[test]
fn a_client_that_connects_after_the_death_of_the_primary_waits_for_the_heir() {
    Cluster::tell_story(async |cluster, _| {
        cluster.all_led_by(FORMER).await;
        cluster.kill(FORMER);
        let took = connect_during_failover(cluster).await;
        let expected = FAILOVER_NS..FAILOVER_NS + NOTICED_NS;
        assert!(expected.contains(&took), "{took} ns");
    });
}

/// Fails if a connect tries each primary once.
#[test]
fn a_client_that_connects_to_a_primary_whose_lease_is_over_waits_for_the_heir() {
    Cluster::tell_story(async |cluster, _| {
        cluster.all_led_by(FORMER).await;
        let server = cluster.nodes[FORMER].server.borrow().clone().unwrap();
        for shard in 0..SHARDS {
            server.lead(Default::default(), shard, None);
        }
        let took = connect_during_failover(cluster).await;
        let expected = FAILOVER_NS..FAILOVER_NS + NOTICED_NS;
        assert!(expected.contains(&took), "{took} ns");
    });
}

/// Fails if the time limit of the connect ends the connect from outside: the reason would be lost.
#[test]
fn a_connect_without_an_heir_ends_in_time_and_names_the_shard_and_the_reason() {
    Cluster::tell_story(async |cluster, _| {
        cluster.all_led_by(FORMER).await;
        cluster.kill(FORMER);
        let runtime = cluster.process.runtime();
        let begun = runtime.now();
        let failed = cluster.connect(40 * MS).await.err().expect("nobody leads");
        let took = runtime.now() - begun;
        assert!((36 * MS..=42 * MS).contains(&took), "{took} ns");
        let ClusterError::NotServed { shard: 0, source } = failed else {
            panic!("{failed}");
        };
        assert!(matches!(*source, StoreError::Refused(_)), "{source}");
    });
}
