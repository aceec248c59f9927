//! The rules of users, and the commands and keys that the rules allow.

use super::*;
use crate::commands::COMMANDS;

fn user(rules: &str) -> User {
    let mut user = User::new(b"a");
    for rule in rules.split_ascii_whitespace() {
        user.apply(rule.as_bytes()).expect(rule);
    }
    user
}

fn may(user: &User, command: &str) -> bool {
    let mut words = command.split('|').map(str::as_bytes);
    let spec = crate::commands::find(words.next().unwrap()).expect(command);
    user.may_run(Unit::of_call(spec, words.next()))
}

#[test]
fn rules_about_commands_apply_in_their_order() {
    for (rules, allowed, denied) in [
        ("+get +SET", "get set", "del client|id"),
        (
            "+@all -@dangerous",
            "get client|id client|setname acl|whoami",
            "keys flushall client|kill client|list config|get acl|setuser info slowlog|get debug",
        ),
        (
            "+@read -get",
            "mget scan object|encoding memory|usage",
            "get set",
        ),
        ("-get +@read", "get mget", "set"),
        (
            "+client -client|kill",
            "client|list client|info",
            "client|kill get",
        ),
        ("+client|id", "client|id", "client|list client"),
        ("-client +client|id -client", "", "client|id client|list"),
        (
            "allcommands nocommands +@transaction",
            "multi exec watch discard unwatch",
            "get",
        ),
        ("+@all -@all", "", "get"),
    ] {
        let user = user(rules);
        for name in allowed.split_ascii_whitespace() {
            assert!(may(&user, name), "{rules}: {name}");
        }
        for name in denied.split_ascii_whitespace() {
            assert!(!may(&user, name), "{rules}: {name}");
        }
        let mut again = User::new(b"a");
        for rule in user.commands().split(' ') {
            again.apply(rule.as_bytes()).unwrap();
        }
        assert!(
            again.rights == user.rights,
            "{rules} -> {}",
            user.commands()
        );
    }
}

/// Needs a unit for each command, and in no category that changes without it being noticed.
#[test]
fn each_command_is_in_categories_and_its_rights_are_its_own() {
    for spec in COMMANDS {
        assert!(!categories_of(spec).is_empty());
        let only = user(&format!("+{}", spec.name));
        for other in COMMANDS {
            assert_eq!(
                may(&only, other.name),
                other.id == spec.id,
                "{}",
                other.name
            );
        }
        let writes = categories_of(spec)
            .iter()
            .any(|it| it.to_string() == "write");
        assert_eq!(writes, spec.has("write"), "{}", spec.name);
    }
    assert!(user("+@all ~*").may_do_everything());
    assert!(!user("+@all ~* -get").may_do_everything());
    assert!(!user("+@all ~a*").may_do_everything());
}

#[test]
fn patterns_of_keys_allow_what_their_letters_say() {
    let user = user("~both:* %R~read:* %W~write:* %RW~two:*");
    let reaches = |key: &str, access| user.reaches(key.as_bytes(), access);
    for (key, look, read, write, both) in [
        ("both:1", true, true, true, true),
        ("two:1", true, true, true, true),
        ("read:1", true, true, false, false),
        ("write:1", true, false, true, false),
        ("other", false, false, false, false),
    ] {
        assert_eq!(reaches(key, Access::LOOK), look, "{key}");
        assert_eq!(reaches(key, Access::READ), read, "{key}");
        assert_eq!(reaches(key, Access::WRITE), write, "{key}");
        assert_eq!(reaches(key, Access::BOTH), both, "{key}");
    }
    assert_eq!(user.key_patterns(), b"~both:* %R~read:* %W~write:* ~two:*");
}

/// As in Redis: two patterns that a key matches do not add up, and two rules about one pattern do.
#[test]
fn reading_and_writing_have_to_be_allowed_by_one_pattern() {
    assert!(!user("%R~k* %W~k1").reaches(b"k1", Access::BOTH));
    let both = user("%R~k* %W~k*");
    assert!(both.reaches(b"k1", Access::BOTH));
    assert_eq!(both.key_patterns(), b"~k*");
}

#[test]
fn wrong_rules_are_refused_with_the_words_of_redis() {
    for (rule, words) in [
        ("+foo", "Unknown command or category name in ACL"),
        ("-flushal", "Unknown command or category name in ACL"),
        ("+@foo", "Unknown command or category name in ACL"),
        ("+client|foo", "Unknown command or category name in ACL"),
        ("+get|foo", "Unknown command or category name in ACL"),
        ("zz", "Syntax error"),
        ("", "Syntax error"),
        ("%~k", "Syntax error"),
        ("%X~k", "Syntax error"),
        ("%R", "Syntax error"),
        ("#zz", "The password hash must be exactly 64 characters"),
        (
            "<nope",
            "The password you are trying to remove from the user does not exist",
        ),
        ("(+get ~k)", "no selectors"),
    ] {
        let refused = User::new(b"a").apply(rule.as_bytes()).unwrap_err();
        assert!(refused.to_string().contains(words), "{rule}: {refused}");
    }
    let mut all = user("allkeys");
    assert_eq!(all.apply(b"~x"), Err(RuleError::PatternBesideAll));
    all.apply(b"resetkeys").unwrap();
    all.apply(b"~x").unwrap();
}

/// Needs the digest, and the state of the user.
#[test]
fn a_user_who_is_on_logs_in_with_any_of_the_passwords() {
    let mut user = user("on >one >two");
    assert!(user.accepts(b"one") && user.accepts(b"two"));
    assert!(!user.accepts(b"") && !user.accepts(b"on") && !user.accepts(b"three"));
    let digest = "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed";
    assert!(user.digests().contains(&digest.to_owned()), "of `one`");
    user.apply(b"<two").unwrap();
    assert!(!user.accepts(b"two"));
    user.apply(b"off").unwrap();
    assert!(!user.accepts(b"one"));
    user.apply(b"on").unwrap();
    user.apply(b"nopass").unwrap();
    assert!(user.accepts(b"anything"));
    user.apply(b"resetpass").unwrap();
    assert!(!user.accepts(b"anything") && !user.accepts(b"one"));
    assert!(!User::nobody().accepts(b""));
}

#[test]
fn a_file_has_the_lines_that_the_list_prints() {
    let text = "# people\n\nuser alice on >secret ~app:* %R~shared:* &* +@all -@dangerous\nuser bob off +get|x";
    assert_eq!(file::parse(text).err().unwrap().0, 4);
    let users = file::parse(text.trim_end_matches("|x")).unwrap();
    let line = users[&b"alice"[..]].line();
    let again = file::parse(std::str::from_utf8(&line).unwrap()).unwrap();
    assert_eq!(again[&b"alice"[..]].line(), line);
    assert!(again[&b"alice"[..]].accepts(b"secret"));
    for (text, words) in [
        ("alice on", "does not begin with `user`"),
        ("user", "does not begin with `user`"),
        ("user a on\nuser a off", "has a line already"),
        ("user a #secret", "the rule #: The password hash"),
    ] {
        let (_, reason) = file::parse(text).err().unwrap();
        assert!(reason.contains(words), "{text}: {reason}");
        assert!(!reason.contains("secret"), "{reason}");
    }
}

fn acl(guard: DefaultUserBounds) -> Acl {
    Acl::of(None, None, guard).unwrap()
}

#[test]
fn the_default_user_is_neither_removed_nor_opened_nor_closed_where_that_cannot_be() {
    let no_places = acl(DefaultUserBounds {
        may_be_closed: false,
        may_be_open: true,
    });
    let set = |acl: &Acl, rule: &str| acl.set(DEFAULT_USER, [rule.as_bytes()].into_iter());
    for rule in [">p", "off", "resetpass"] {
        assert_eq!(set(&no_places, rule), Err(Refusal::MayNotClose), "{rule}");
    }
    set(&no_places, "-flushall").unwrap();
    assert_eq!(
        no_places.remove([DEFAULT_USER].into_iter()).err(),
        Some(Refusal::DefaultUser)
    );
    let reached = DefaultUserBounds {
        may_be_closed: true,
        may_be_open: false,
    };
    assert!(Acl::of(None, None, reached).is_err());
    let reached = Acl::of(None, Some(&Password::new("p")), reached).unwrap();
    assert_eq!(set(&reached, "nopass"), Err(Refusal::MayNotOpen));
    assert_eq!(reached.set(b"a b", [].into_iter()), Err(Refusal::Name));
}

/// Needs the bound that the start sets: a file that forgets the user would open the store to everybody.
#[test]
fn a_gateway_that_began_with_a_password_keeps_one_whatever_its_file_says_later() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = Some(file.path());
    let write = |text: &str| std::fs::write(file.path(), text).unwrap();
    let anything = DefaultUserBounds {
        may_be_closed: true,
        may_be_open: true,
    };
    write("user default on >p ~* +@all\nuser a on >q ~* +@all");
    let acl = Acl::of(path, None, anything).unwrap();
    for forgetful in ["user a on >q ~* +@all", "user default on nopass ~* +@all"] {
        write(forgetful);
        let refused = acl.replace(path, None).err().unwrap().to_string();
        assert!(refused.contains("when it started"), "{refused}");
        assert!(!acl.default_user().is_open());
    }
    let opened = acl.set(DEFAULT_USER, [&b"nopass"[..]].into_iter());
    assert_eq!(opened, Err(Refusal::MayNotOpen));
    write("user default off");
    acl.replace(path, None).unwrap();
}

/// Needs the rules to be applied to a copy first.
#[test]
fn a_change_with_a_wrong_rule_changes_nothing() {
    let acl = acl(DefaultUserBounds {
        may_be_closed: true,
        may_be_open: true,
    });
    let set = |rules: &[&str]| acl.set(b"a", rules.iter().map(|rule| rule.as_bytes()));
    set(&["on", "+get"]).unwrap();
    let before = acl.user(b"a").unwrap().line();
    assert!(set(&["+set", "+foo"]).is_err());
    assert_eq!(acl.user(b"a").unwrap().line(), before);
}
