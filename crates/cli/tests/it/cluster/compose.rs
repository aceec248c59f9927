//! The services of the compose file, as processes of this machine, each in a PID namespace of its own: their command
//! lines are those of the file, with places of the test in the place of volumes, and an etcd of this machine.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use super::etcd::Etcd;
use crate::containers::in_a_namespace;
use crate::gateway::address;
use crate::stat_admin::secret;
use crate::support::{Place, Reply, RespClient, Server, command, not_run, run};

/// The command line of `service`, a list in the syntax of JSON.
fn command_of(service: &str, file: &str) -> Vec<String> {
    let start = format!("\n  {service}:\n");
    let (_, after) = file.split_once(&start).expect("the service is there");
    let line = after
        .lines()
        .find_map(|line| line.trim().strip_prefix("command: "));
    serde_json::from_str(line.expect("it has a command")).expect("a list of words")
}

#[test]
fn the_services_of_the_compose_file_form_a_cluster_that_serves_redis_clients() {
    let Some(etcd) = Etcd::start() else {
        return not_run("the compose file", "etcd is not installed");
    };
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/compose/compose.yaml");
    let file = fs::read_to_string(file).expect("the file is there");
    let (_, create) = file.split_once("\n  create:\n").expect("it is there");
    let (create, _) = create.split_once("\n\n").expect("others follow");
    assert!(
        create.contains("condition: service_healthy"),
        "no second attempt follows one without etcd"
    );
    let place = Place::in_volatile_memory();
    let password = secret(place.path(), "password", "open sesame\n");
    let here = |service: &str, word: String| {
        let folder = |name: &str| place.path().join(name).display().to_string();
        word.replace("etcd://etcd:2379/stonecast", &etcd.address())
            .replace("/var/lib/stonecast", &folder(service))
            .replace("/run/stonecast/", &folder("run-"))
            .replace("/run/secrets/password", &password.display().to_string())
            .replace("0.0.0.0:6379", "127.0.0.1:0")
            .replace("1GiB", "64MiB")
    };
    let started = |service: &str| {
        let words = command_of(service, &file);
        let mut command = command();
        command.args(words.into_iter().map(|word| here(service, word)));
        command
    };
    run(started("create"), b"").text();
    assert_eq!(run(started("create"), b"").code, Some(6), "it exists");
    let mut nodes: Vec<Server> = ["a", "b", "c"]
        .map(|name| {
            let mut serve = started(name);
            // The pool of the test is in memory.
            serve.args(["--durability", "process"]);
            let contained = in_a_namespace(&serve).unwrap_or_else(|| {
                let reason = "unshare makes no PID namespace";
                not_run("the compose file, in containers", reason);
                serve
            });
            Server::spawn(contained, &place.path().join(name))
        })
        .into();
    for node in &mut nodes {
        assert!(node.wait_until_ready(), "{}", node.heard());
    }
    let ports = nodes.iter_mut().map(|node| address(node, "redis://"));
    let ok = Reply::Line("+OK".to_owned());
    let mut clients: Vec<RespClient> = ports.map(RespClient::connect).collect();
    for client in &mut clients {
        assert!(client.send(&[vec!["AUTH", "open sesame"]]));
        assert_eq!(client.reply(), Some(ok.clone()));
    }
    let end = Instant::now() + Duration::from_secs(30);
    while clients[0].call("SET greeting hello") != ok {
        assert!(Instant::now() < end, "no shard takes writes");
        std::thread::sleep(Duration::from_millis(50));
    }
    for client in &mut clients {
        assert_eq!(client.call("GET greeting"), Reply::bulk("hello"));
    }
}
