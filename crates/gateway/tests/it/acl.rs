//! Users with rights to commands and keys.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Duration;

use stonecast_gateway::{GatewayError, GatewayOptions, Password, spawn};

use crate::support::{Client, Reply, World, options};

const DENIED_KEY: &str = "NOPERM No permissions to access a key";

fn ok() -> Reply {
    Reply::simple("OK")
}

fn world() -> (World, Client) {
    let world = World::start();
    let admin = world.client();
    (world, admin)
}

/// A client that is logged in as `user`, whom `rules` make, with the password `p`.
fn user(world: &World, admin: &mut Client, user: &str, rules: &str) -> Client {
    let set = format!("ACL SETUSER {user} on >p {rules}");
    assert_eq!(admin.words(&set), ok(), "{set}");
    let mut client = world.client();
    assert_eq!(client.words(&format!("AUTH {user} p")), ok());
    client
}

fn assert_denied(client: &mut Client, command: &str) {
    let reply = client.words(command);
    assert!(reply.error().starts_with("NOPERM "), "{command}: {reply:?}");
}

#[test]
fn a_user_runs_the_commands_and_reaches_the_keys_that_the_rules_allow() {
    let (world, mut admin) = world();
    admin.words("MSET app:1 one other secret shared:1 s");
    let rules = "+@read +set +del +rename +copy +mset +getset +flushall +randomkey -keys ~app:* %R~shared:* %W~log:*";
    let mut client = user(&world, &mut admin, "a", rules);
    assert_eq!(client.words("GET app:1"), Reply::bulk("one"));
    assert_eq!(client.words("GET other").error(), DENIED_KEY);
    assert_eq!(
        client.words("KEYS *").error(),
        "NOPERM User a has no permissions to run the 'keys' command"
    );
    assert_eq!(
        client.words("CLIENT LIST").error(),
        "NOPERM User a has no permissions to run the 'client|list' command"
    );
    for allowed in [
        "SET app:2 x",
        "SET log:1 x",
        "SET log:1 y EX 100",
        "GET shared:1",
        "EXISTS log:1",
        "COPY shared:1 log:2",
        "MSET app:3 x log:3 y",
        "DEL log:3",
        "RENAME app:3 log:4",
    ] {
        let reply = client.words(allowed);
        assert!(!matches!(reply, Reply::Error(_)), "{allowed}: {reply:?}");
    }
    for denied in [
        "SET other x",
        "SET shared:1 x",
        "GET log:1",
        "SET log:1 x GET",
        "SET log:1 z IFEQ y",
        "GETSET log:1 x",
        "MGET app:1 other",
        "MSET app:1 x other y",
        "DEL app:1 other",
        "DEL shared:1",
        "EXISTS app:1 other",
        "COPY shared:1 other",
        "COPY app:1 shared:2",
        "COPY other app:9",
        "RENAME app:1 other",
        "RENAME shared:1 app:9",
        "RENAME log:1 app:9",
        "OBJECT ENCODING other",
        "MEMORY USAGE other",
        "FLUSHALL",
        "RANDOMKEY",
        "INCR app:1",
        "ACL LIST",
    ] {
        assert_denied(&mut client, denied);
    }
    let found = client.words("SCAN 0 COUNT 1000");
    let mut keys: Vec<String> = found.list()[1]
        .list()
        .iter()
        .map(|key| key.text().to_owned())
        .collect();
    keys.sort();
    assert_eq!(
        keys,
        ["app:1", "app:2", "shared:1"],
        "what the user may read"
    );
    assert_eq!(admin.words("GET other"), Reply::bulk("secret"));
    // Every user may say who they are, and go.
    assert_eq!(client.words("RESET"), Reply::simple("RESET"));
    assert_eq!(
        client.words("KEYS other"),
        Reply::Array(vec![Reply::bulk("other")])
    );
}

/// Needs the check of every command of a step, and not of its first one alone.
#[test]
fn a_pipeline_does_the_allowed_commands_alone() {
    let (world, mut admin) = world();
    let mut client = user(&world, &mut admin, "a", "+get +set +auth +ping ~a*");
    let replies = client.pipeline([
        "SET a1 x", "SET b1 x", "SET a2 y", "GET a1", "GET b1", "GET a2", "DEL a1", "PING",
        "SET a3 z", "NOSUCH", "GET",
    ]);
    let is_denied =
        |reply: &Reply| matches!(reply, Reply::Error(words) if words.starts_with("NOPERM"));
    let denied: Vec<usize> = (0..replies.len())
        .filter(|&at| is_denied(&replies[at]))
        .collect();
    assert_eq!(denied, [1, 4, 6]);
    assert_eq!(replies[5], Reply::bulk("y"));
    assert_eq!(admin.words("MGET a1 b1 a2 a3").list()[1], Reply::NoBulk);
    // The user of the connection changes within the pipeline.
    assert_eq!(admin.words("ACL SETUSER b on >p +get ~b*"), ok());
    admin.words("SET b1 found");
    let replies = client.pipeline([
        "GET b1", "AUTH b p", "GET b1", "GET a1", "AUTH a p", "GET b1",
    ]);
    assert!(is_denied(&replies[0]) && is_denied(&replies[3]) && is_denied(&replies[5]));
    assert_eq!(replies[2], Reply::bulk("found"));
}

/// Needs the look at the number of changes before each command, and the second check at `EXEC`.
#[test]
fn a_change_of_rules_counts_for_the_next_command_and_for_commands_that_are_queued() {
    let (world, mut admin) = world();
    let mut client = user(&world, &mut admin, "a", "+@all ~*");
    client.words("SET k 1");
    client.words("MULTI");
    client.words("GET k");
    client.words("SET k 2");
    client.words("SET other 2");
    assert_eq!(admin.words("ACL SETUSER a -get resetkeys ~k"), ok());
    let done = client.words("EXEC");
    let done = done.list();
    assert!(
        done[0]
            .error()
            .contains("no permission to execute the command"),
        "{done:?}"
    );
    assert_eq!(done[1], ok());
    assert!(
        done[2]
            .error()
            .contains("no permission to touch the specified keys"),
        "{done:?}"
    );
    assert_eq!(
        admin.words("MGET k other"),
        Reply::Array(vec![Reply::bulk("2"), Reply::NoBulk])
    );
    assert_denied(&mut client, "GET k");
    // A denied command breaks a transaction.
    client.words("MULTI");
    assert_denied(&mut client, "GET k");
    assert_eq!(client.words("SET k 3"), Reply::simple("QUEUED"));
    assert!(client.words("EXEC").error().starts_with("EXECABORT"));
    assert_denied(&mut client, "WATCH other");
    // A user may lose the right to change users, within one pipeline.
    let replies = client.pipeline(["ACL SETUSER a -acl", "ACL SETUSER a +@all", "GET k"]);
    assert_eq!(replies[0], ok());
    assert!(replies[1].error().starts_with("NOPERM") && replies[2].error().starts_with("NOPERM"));
}

/// Needs the end of connections: a later user of the name is another one.
#[test]
fn the_connections_of_a_user_who_is_removed_end() {
    let (world, mut admin) = world();
    let mut idle = user(&world, &mut admin, "a", "+@all ~*");
    let mut other = user(&world, &mut admin, "b", "+@all ~*");
    assert_eq!(other.words("ACL DELUSER a nobody"), Reply::Integer(1));
    assert!(idle.has_ended());
    assert!(
        admin
            .words("ACL DELUSER default")
            .error()
            .contains("cannot be removed")
    );
    assert_eq!(other.words("ACL DELUSER b"), Reply::Integer(1));
    assert!(other.has_ended(), "also its own connection");
    assert_eq!(
        admin.words("ACL USERS"),
        Reply::Array(vec![Reply::bulk("default")])
    );
    assert_eq!(admin.words("ACL WHOAMI"), Reply::bulk("default"));
}

#[test]
fn a_user_who_is_off_or_unknown_or_whose_password_is_wrong_does_not_log_in() {
    let (world, mut admin) = world();
    admin.words("ACL SETUSER off >p +@all");
    admin.words("ACL SETUSER on on >p >q +@all");
    admin.words("ACL SETUSER open on nopass +@all");
    let mut client = world.client();
    for said in [
        "off p",
        "on x",
        "nobody p",
        "on 148de9c5a7a44d19e56cd9ae1a554bf67847afb0c58f6e12fa29ac7ddfca9940",
    ] {
        let reply = client.words(&format!("AUTH {said}"));
        assert!(reply.error().starts_with("WRONGPASS "), "{said}: {reply:?}");
        let reply = client.words(&format!("HELLO 2 AUTH {said}"));
        assert!(reply.error().starts_with("WRONGPASS "), "{said}: {reply:?}");
        assert_eq!(client.words("ACL WHOAMI"), Reply::bulk("default"));
    }
    for said in ["on p", "on q", "open whatever", "default whatever"] {
        assert_eq!(client.words(&format!("AUTH {said}")), ok(), "{said}");
        let name = said.split(' ').next().unwrap();
        assert_eq!(client.words("ACL WHOAMI"), Reply::bulk(name));
        assert!(
            client
                .words("CLIENT INFO")
                .text()
                .contains(&format!("user={name} "))
        );
    }
    assert!(
        client
            .words("AUTH whatever")
            .error()
            .starts_with("ERR AUTH <password> called without")
    );
}

#[test]
fn users_are_shown_as_they_were_set() {
    let (_world, mut admin) = world();
    assert_eq!(
        admin.words("ACL LIST"),
        Reply::Array(vec![Reply::bulk("user default on nopass ~* &* +@all")])
    );
    assert_eq!(admin.words("ACL GETUSER nobody"), Reply::NoBulk);
    admin.words("ACL SETUSER a on >p ~k* %R~r* +@read -get");
    let shown = admin.words("ACL GETUSER a");
    let digest = "148de9c5a7a44d19e56cd9ae1a554bf67847afb0c58f6e12fa29ac7ddfca9940";
    let fields = shown.list();
    assert_eq!(fields[1], Reply::Array(vec![Reply::bulk("on")]));
    assert_eq!(fields[3], Reply::Array(vec![Reply::bulk(digest)]));
    assert_eq!(fields[5], Reply::bulk("-@all +@read -get"));
    assert_eq!(fields[7], Reply::bulk("~k* %R~r*"));
    let line = format!("user a on #{digest} ~k* %R~r* resetchannels -@all +@read -get");
    assert_eq!(admin.words("ACL LIST").list()[0], Reply::bulk(line));
    assert_eq!(admin.words("ACL GENPASS").text().len(), 64);
    assert_eq!(admin.words("ACL GENPASS 5").text().len(), 2);
    assert_ne!(admin.words("ACL GENPASS"), admin.words("ACL GENPASS"));
    let words = "User a has no permissions to run the 'set' command";
    assert_eq!(admin.words("ACL DRYRUN a SET k v"), Reply::bulk(words));
    let words = "User a has no permissions to access the 'zz' key";
    assert_eq!(admin.words("ACL DRYRUN a STRLEN zz"), Reply::bulk(words));
    assert_eq!(admin.words("ACL DRYRUN a STRLEN k"), ok());
    let read = admin.words("ACL CAT read");
    assert!(
        read.list().contains(&Reply::bulk("get")) && !read.list().contains(&Reply::bulk("set"))
    );
    for (command, words) in [
        ("ACL CAT nope", "ERR Unknown category 'nope'"),
        ("ACL DRYRUN nobody GET k", "ERR User 'nobody' not found"),
        ("ACL DRYRUN a NOSUCH k", "ERR Command 'nosuch' not found"),
        (
            "ACL SETUSER a +foo",
            "ERR Error in ACL SETUSER modifier '+foo': Unknown command or category name in ACL",
        ),
        (
            "ACL SETUSER",
            "ERR wrong number of arguments for 'acl|setuser' command",
        ),
        ("ACL LOG", "ERR ACL LOG is not supported by this store"),
    ] {
        assert_eq!(
            admin.words(command).error().to_lowercase(),
            words.to_lowercase(),
            "{command}"
        );
    }
    let refused = admin.words("ACL SETUSER default >p");
    assert!(refused.error().contains("--resp-acl-file"), "{refused:?}");
}

fn write(path: &Path, text: &str, mode: u32) {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn with_file(path: &Path) -> GatewayOptions {
    GatewayOptions {
        acl_file: Some(path.to_owned()),
        ..options()
    }
}

#[test]
fn a_file_of_users_is_read_at_the_start_and_again_while_the_gateway_runs() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("users");
    write(
        &path,
        "user default off\nuser a on >p ~a* +@all\nuser b on >p ~* +@all\n",
        0o600,
    );
    let world = World::with(with_file(&path));
    let mut client = world.client();
    assert!(client.words("GET a1").error().starts_with("NOAUTH"));
    assert!(
        client
            .words("AUTH default x")
            .error()
            .starts_with("WRONGPASS")
    );
    assert_eq!(client.words("AUTH a p"), ok());
    assert_eq!(client.words("SET a1 x"), ok());
    let mut gone = world.client();
    assert_eq!(gone.words("AUTH b p"), ok());
    gone.words("ACL SETUSER c on >p +@all");

    write(&path, "user default off\nuser a on >new ~a* +get\n", 0o600);
    world.gateway().replace_secrets(None).unwrap();
    assert_denied(&mut client, "SET a1 y");
    assert_eq!(client.words("GET a1"), Reply::bulk("x"));
    assert!(gone.has_ended());
    let mut next = world.client();
    assert!(next.words("AUTH a p").error().starts_with("WRONGPASS"));
    assert!(
        next.words("AUTH c p").error().starts_with("WRONGPASS"),
        "it is not in the file"
    );
    assert_eq!(next.words("AUTH a new"), ok());

    for (text, mode, words) in [
        ("user a on +nosuch", 0o600, "line 1: the rule +nosuch"),
        ("user a on", 0o644, "every user may read the file"),
    ] {
        write(&path, text, mode);
        let refused = world
            .gateway()
            .replace_secrets(None)
            .unwrap_err()
            .to_string();
        assert!(refused.contains(words), "{refused}");
        assert_eq!(
            next.words("GET a1"),
            Reply::bulk("x"),
            "nothing has changed"
        );
    }
}

#[test]
fn users_are_saved_into_their_file_and_loaded_from_it() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("users");
    write(&path, "# kept by hand\nuser a on >p ~* +@all\n", 0o600);
    let world = World::with(with_file(&path));
    let mut admin = world.client();
    admin.words("ACL SETUSER b on >q ~b* +get");
    assert_eq!(admin.words("ACL SAVE"), ok());
    let lines = |client: &mut Client| client.words("ACL LIST");
    let saved = lines(&mut admin);
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "it has digests of passwords");

    let mut gone = user(&world, &mut admin, "c", "+@all");
    assert_eq!(admin.words("ACL LOAD"), ok());
    assert_eq!(lines(&mut admin), saved);
    assert!(gone.has_ended());
    let mut b = world.client();
    assert_eq!(b.words("AUTH b q"), ok());
    assert_denied(&mut b, "ACL SAVE");

    write(&path, "user a on +nosuch", 0o600);
    let refused = admin.words("ACL LOAD");
    assert!(refused.error().contains("line 1"), "{refused:?}");
    assert_eq!(lines(&mut admin), saved);
    fs::remove_dir_all(place.path()).unwrap();
    let refused = admin.words("ACL SAVE");
    assert!(refused.error().starts_with("ERR writing "), "{refused:?}");

    let (_world, mut admin) = self::world();
    for command in ["ACL SAVE", "ACL LOAD"] {
        let refused = admin.words(command);
        assert!(refused.error().contains("--resp-acl-file"), "{refused:?}");
    }
}

/// Needs the `default` user to stay out of the file: a gateway whose password is in a file of its own refuses to start.
#[test]
fn a_saved_file_of_users_fits_the_file_of_the_password() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("users");
    write(&path, "user a on >p ~* +@all\n", 0o600);
    let options = GatewayOptions {
        password: Some(Password::new("secret")),
        ..with_file(&path)
    };
    let world = World::with(options);
    let mut admin = world.client();
    assert_eq!(admin.words("AUTH secret"), ok());
    assert_eq!(admin.words("ACL SAVE"), ok());
    assert_eq!(admin.words("ACL LOAD"), ok());
    assert_eq!(admin.words("ACL USERS").list().len(), 2);
}

#[test]
fn a_file_that_leaves_the_store_open_to_other_machines_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("users");
    let start = |text: &str, options: GatewayOptions| {
        write(&path, text, 0o600);
        spawn(GatewayOptions {
            store: Some("shm:/nowhere".to_owned()),
            ..options
        })
        .map(drop)
    };
    let mut reached = with_file(&path);
    reached.resp = Some("0.0.0.0:0".parse().unwrap());
    let refused = start("user a on >p +@all ~*", reached.clone()).unwrap_err();
    assert!(
        refused.to_string().contains("give the user a password"),
        "{refused}"
    );
    start("user default off", reached.clone()).unwrap();
    reached.admin = Some("0.0.0.0:0".parse().unwrap());
    let refused = start("user default off", reached).unwrap_err();
    assert!(
        matches!(refused, GatewayError::Unprotected { .. }),
        "the admin port knows no users"
    );
    let mut both = with_file(&path);
    both.password = Some(Password::new("p"));
    let refused = start("user default on >q", both).unwrap_err();
    assert!(
        refused.to_string().contains("leave one of them out"),
        "{refused}"
    );
}

/// Needs a turn before each wrong password of any user.
#[test]
fn wrong_passwords_of_users_are_compared_slowly() {
    let (world, mut admin) = world();
    admin.words("ACL SETUSER a on >p +@all");
    let mut client = world.client();
    let began = std::time::Instant::now();
    for _ in 0..5 {
        assert!(
            client
                .words("AUTH a wrong")
                .error()
                .starts_with("WRONGPASS")
        );
    }
    assert!(
        began.elapsed() > Duration::from_secs(1),
        "three at once, then one a second"
    );
}
