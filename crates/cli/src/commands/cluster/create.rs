//! `cluster create`: the first configuration of a cluster.

use clap::Args;
use clap::builder::RangedU64ValueParser;
use serde::Serialize;
use stonecast_cluster::{Configuration, CreateError, HashSeed, Policy, Timing, create};
use stonecast_media::SHARDS_MAX;
use uuid::Uuid;

use super::store::{
    OpenStore, StoreFlags, entropy, outcome_unknown, unanswered, unreadable, writer,
};
use crate::failure::{Failure, Status};
use crate::flags::OutputFlags;
use crate::output;
use crate::values::Period;

/// Shards of a cluster unless their number is given.
pub(super) const SHARDS: u32 = 32;

/// Creates a cluster: writes its first configuration, without any node.
///
/// A store that holds a cluster is left as it is. Of several creations at once in one store, one succeeds.
#[derive(Debug, Args)]
#[command(after_help = "\
Example: on one host, and in production
  stonecast cluster create --config-store file:./cluster
  stonecast cluster create --config-store etcd://10.0.0.1:2379,10.0.0.2:2379/stonecast --replicas 3 --min-copies 2")]
pub struct Create {
    #[command(flatten)]
    pub store: StoreFlags,
    /// Copies of each shard, the primary's included: 1 to 5.
    #[arg(long, value_name = "COPIES", default_value_t = 3, value_parser = RangedU64ValueParser::<u8>::new().range(1..=u64::from(Policy::REPLICAS_MAX)))]
    pub replicas: u8,
    /// Ranges into which the hashes of the keys are split: 1 to 64, and at least one for each node that is to
    /// lead keys.
    #[arg(long, value_name = "NUMBER", default_value_t = SHARDS, value_parser = RangedU64ValueParser::<u32>::new().range(1..=u64::from(SHARDS_MAX)))]
    pub shards: u32,
    /// Fewest copies in sync with which a shard takes writes [default: 2 of three or more copies, otherwise 1].
    #[arg(long, value_name = "COPIES")]
    pub min_copies: Option<u8>,
    /// Lease of a primary: the time for which a shard is not served after its primary failed.
    #[arg(long, value_name = "TIME", default_value = "100ms")]
    pub lease: Period,
    /// Silence after which a node loses its copies; at least the lease.
    #[arg(long, value_name = "TIME", default_value = "500ms")]
    pub remove_after: Period,
    #[command(flatten)]
    pub output: OutputFlags,
}

/// The object that `--json` prints.
#[derive(Serialize)]
struct Report<'a> {
    store: &'a str,
    cluster: Uuid,
    epoch: u64,
}

/// Creates the cluster, and prints its nonce.
pub fn run(flags: &Create) -> Result<(), Failure> {
    let policy = Policy {
        hash_seed: Some(HashSeed(u64::from_ne_bytes(entropy()?))),
        ..policy_of(flags)?
    };
    let open = OpenStore::open(&flags.store)?;
    let created = create_in(&open, policy)?;
    report(flags, open.store.name(), &created)
}

/// Creates a cluster of that policy in the store.
pub fn create_in(open: &OpenStore, policy: Policy) -> Result<Configuration, Failure> {
    let (store, runtime) = (&*open.store, open.executor.runtime());
    let (mut writer, nonce) = (writer()?, Uuid::from_bytes(entropy()?));
    let created = create(store, &runtime, &mut writer, nonce, policy);
    open.executor.block_on(created).map_err(failure)
}

fn policy_of(flags: &Create) -> Result<Policy, Failure> {
    let default = Policy::new(flags.replicas, flags.shards);
    let nanoseconds = |period: Period| u64::try_from(period.0.as_nanos()).unwrap_or(u64::MAX);
    let policy = Policy {
        min_copies: flags.min_copies.unwrap_or(default.min_copies),
        lease: Timing {
            duration_ns: nanoseconds(flags.lease),
            ..default.lease
        },
        remove_after_ns: nanoseconds(flags.remove_after),
        ..default
    };
    if policy.min_copies > policy.replicas {
        let (min, replicas) = (policy.min_copies, policy.replicas);
        return Err(Failure::usage(format!(
            "--min-copies {min} needs {min} copies, and there are {replicas} of each shard: ask for --replicas {min} or more, or \
             for fewer --min-copies"
        )));
    }
    if policy.remove_after_ns < policy.lease.duration_ns {
        return Err(Failure::usage(
            "--remove-after is shorter than --lease, so a node would lose its copies while it may lead: ask for as long a time \
             at least",
        ));
    }
    policy
        .check()
        .map_err(|error| Failure::usage(error.to_string()))?;
    Ok(policy)
}

fn failure(error: CreateError) -> Failure {
    match &error {
        CreateError::Policy(_) => Failure::usage(error.to_string()),
        CreateError::Exists { nonce, epoch, .. } => {
            Failure::new(Status::Conflict, error.to_string())
                .with("cluster", nonce)
                .with("epoch", epoch)
        }
        CreateError::Document { store, error } => unreadable(store, error),
        CreateError::Store {
            error, is_unknown, ..
        } if *is_unknown => outcome_unknown(error),
        CreateError::Store { error, .. } => unanswered(error),
    }
}

fn report(flags: &Create, store: &str, created: &Configuration) -> Result<(), Failure> {
    let done = format!("cluster {} is created in {store}", created.nonce);
    if flags.output.json {
        let report = Report {
            store,
            cluster: created.nonce,
            epoch: created.epoch.0,
        };
        return output::report(&report, &done);
    }
    let (shards, replicas) = (flags.shards, flags.replicas);
    let nodes = if replicas == 1 {
        "1 node has"
    } else {
        &format!("{replicas} nodes have")
    };
    let text = format!(
        "{done}\nThe {shards} shards are placed once {nodes} registered; `stonecast cluster status` shows how far they are.\n"
    );
    output::bytes(text.as_bytes()).map_err(|failure| failure.after(&done))
}
