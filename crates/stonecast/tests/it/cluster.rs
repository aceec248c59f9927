//! A program on a cluster: the address alone differs from that of a program on a server.

use std::time::Duration;

use stonecast::{
    AddressError, Condition, Connector, Durability, Effect, Error, ErrorKind, Lifetime, Write,
    Written, blocking,
};

use crate::stand_ins::{self, Cluster, SHARDS};
use crate::support::{Place, block_on};

fn refused(url: &str) -> Error {
    let limit = Duration::from_secs(2);
    let connector = Connector::new(url).unwrap().connect_timeout(limit);
    connector.connect_blocking().err().expect("a refusal")
}

/// The program.
fn work(client: &blocking::Client) -> Result<(), Error> {
    let keys: Vec<String> = (0..200).map(|number| format!("key {number}")).collect();
    let pairs: Vec<_> = keys.iter().map(|key| (key, key)).collect();
    for outcome in client.multi_put(&pairs)? {
        outcome?;
    }
    let version = client.put("a", "1")?;
    let entry = client.get("a")?.expect("it was stored");
    assert_eq!(
        (entry.value.as_slice(), entry.version),
        (&b"1"[..], version)
    );
    let lost = client.put_if("a", "2", Condition::Absent)?;
    assert_eq!(lost, Written::Conflict(Some(version)));
    let retryable = Write::retryable().if_version(version);
    assert!(matches!(
        client.put_with("a", "2", retryable)?,
        Written::Done(_)
    ));
    assert!(client.delete("a")?);
    assert!(!client.delete("a")?);
    assert_eq!(
        client.delete_if("a", Condition::None)?,
        Written::Conflict(None)
    );
    assert_eq!(client.get("a")?, None);
    let minute = Write::new().expires_in(Duration::from_secs(60));
    client.put_with("a", "1", minute)?;
    let entry = client.get("a")?.expect("for a minute");
    assert!(entry.expires.is_some());
    let together = client.multi_get(&["a"])?;
    assert_eq!(together, [Some(entry.clone())]);
    let stale = client.touch("a", Lifetime::Forever, Some(entry.version + 1))?;
    assert_eq!(stale, Written::Conflict(Some(entry.version)));
    let soon = Lifetime::For(Duration::from_millis(20));
    let touched = client.touch("a", soon, Some(entry.version))?;
    assert!(matches!(touched, Written::Done(_)));
    while client.get("a")?.is_some() {}
    // A client may take a key for absent some milliseconds before its server does.
    while client.delete("a")? {}
    let found = client.multi_get(&keys)?;
    let values = found.into_iter().map(|entry| entry.expect("stored").value);
    assert!(values.eq(keys.iter().map(|key| key.clone().into_bytes())));
    let mut listed: Vec<_> = client
        .entries()?
        .map(|it| it.map(|it| it.key))
        .collect::<Result<_, _>>()?;
    listed.sort();
    let mut expected: Vec<_> = keys.into_iter().map(String::into_bytes).collect();
    expected.sort();
    assert_eq!(listed, expected);
    assert_eq!(client.stat()?.keys, 200);
    assert!(client.metrics()?.stat.puts >= 202);
    Ok(())
}

#[test]
fn a_program_on_a_server_runs_on_a_cluster_with_another_address() {
    let (server, cluster) = (Place::new(), Cluster::start());
    for url in [server.url(), cluster.url()] {
        let client = blocking::connect(&url).unwrap();
        work(&client).unwrap_or_else(|error| panic!("{url}: {error}"));
        client.close();
    }
}

#[test]
fn tasks_of_any_thread_share_a_client_of_a_cluster() {
    let cluster = Cluster::start();
    block_on(async {
        let client = stonecast::connect(&cluster.url()).await.unwrap();
        let tasks = (0..50).map(|number| {
            let client = client.clone();
            tokio::spawn(async move { client.put(format!("key {number}"), "value").await })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await.unwrap().unwrap();
        }
        let mut entries = client.entries().await.unwrap();
        let mut found = 0;
        loop {
            let batch = entries.next_batch().await.unwrap();
            found += batch.len();
            if batch.is_empty() {
                break;
            }
        }
        assert_eq!(found, 50);
    });
}

#[test]
fn a_client_follows_a_shard_to_its_next_node() {
    let mut cluster = Cluster::start();
    let client = blocking::connect(&cluster.url()).unwrap();
    client.put("a", "1").unwrap();
    (0..SHARDS).for_each(|shard| cluster.hand_over(shard));
    assert_eq!(client.get("a").unwrap(), None, "stand-ins have no copies");
    client.put("a", "2").unwrap();
    assert_eq!(client.get("a").unwrap().unwrap().value, b"2");
}

#[test]
fn a_write_during_which_its_node_ends_is_unknown_with_its_token_and_a_later_one_has_done_nothing() {
    let mut cluster = Cluster::start();
    let connector = Connector::new(&cluster.url()).unwrap();
    let limit = Duration::from_millis(300);
    let client = connector.operation_timeout(Some(limit)).connect_blocking();
    let client = client.unwrap();
    client.put("a", "1").unwrap();
    cluster.end();
    // Nobody has told the client that the node is gone.
    let sent = client.put("a", "2").unwrap_err();
    assert!(
        matches!(sent.effect(), Effect::Unknown { token: Some(_) }),
        "{sent}"
    );
    let failed = client.put("a", "3").unwrap_err();
    assert!(matches!(failed.kind(), ErrorKind::Cluster(_)), "{failed:?}");
    assert_eq!(failed.effect(), Effect::None, "{failed}");
    assert!(
        failed.to_string().contains("stonecast cluster status"),
        "{failed}"
    );
    assert!(
        !failed.is_disconnected(),
        "the client goes on once a node serves"
    );
}

#[test]
fn an_address_that_leads_to_no_cluster_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("cluster:{}", stand_ins::store_in(folder.path()));
    let none = refused(&url).to_string();
    assert!(none.contains("create the cluster first"), "{none}");
    std::fs::create_dir(folder.path().join("configuration")).unwrap();
    let none = refused(&url).to_string();
    assert!(none.contains("stonecast cluster create"), "{none}");
    stand_ins::store(
        &url["cluster:".len()..],
        &stand_ins::without_nodes().encode(),
    );
    let empty = refused(&url).to_string();
    assert!(empty.contains("stonecast cluster status"), "{empty}");
    stand_ins::store(&url["cluster:".len()..], b"nothing of ours");
    let foreign = refused(&url).to_string();
    assert!(foreign.contains("configuration"), "{foreign}");
}

#[test]
fn nodes_that_do_not_answer_are_named() {
    let mut cluster = Cluster::start();
    cluster.end();
    let failed = refused(&cluster.url()).to_string();
    assert!(failed.contains("is not served"), "{failed}");
    assert!(failed.contains("/socket"), "{failed}");
}

#[test]
fn a_cluster_whose_pools_promise_less_than_the_program_expects_is_refused() {
    let cluster = Cluster::start();
    let connector = Connector::new(&cluster.url()).unwrap();
    let refused = connector.expect_durability(Durability::Power);
    let refused = refused.connect_blocking().err().expect("a refusal");
    assert!(
        matches!(refused.kind(), ErrorKind::Durability { .. }),
        "{refused}"
    );
}

#[test]
fn the_refusal_of_an_address_names_its_fault_and_no_password() {
    for (text, fault) in [
        ("cluster:nowhere", "file:PATH"),
        ("cluster:file:", "the path is empty"),
        (
            "cluster:etcd://ops:secret@10.0.0.1/blue",
            "a port is missing",
        ),
    ] {
        let refused: AddressError = text.parse::<stonecast::Address>().unwrap_err();
        assert!(refused.reason.contains(fault), "{refused}");
        assert!(!refused.to_string().contains("secret"), "{refused}");
    }
}
