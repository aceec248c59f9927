//! Configurations as bytes.

use rand::RngExt as _;
use stonecast_cluster::{
    Configuration, DocumentError, HashSeed, NodeState, Policy, VALUE_SIZE_MAX,
};
use xxhash_rust::xxh3::{xxh3_128, xxh3_128_with_seed};

use crate::cluster::{NONCE, an_attempt, name, placed, random, start};

#[test]
fn a_configuration_is_read_as_it_was_written() {
    let written = placed();
    assert_eq!(Configuration::decode(&written.encode()), Ok(written));
}

#[test]
fn no_changed_byte_is_ever_taken_for_a_configuration_that_was_written() {
    let document = placed().encode();
    let random = &mut random(7);
    for _ in 0..20_000 {
        let mut damaged = document.clone();
        let at = random.random_range(0..damaged.len());
        damaged[at] ^= 1 << random.random_range(0..8);
        assert!(Configuration::decode(&damaged).is_err(), "byte {at}");
    }
    for length in 0..document.len() {
        assert!(
            Configuration::decode(&document[..length]).is_err(),
            "{length} bytes"
        );
    }
}

#[test]
fn damage_names_the_bytes_and_both_tags() {
    let mut document = placed().encode();
    let last = document.len() - 3;
    document[last] = b'?';
    let Err(DocumentError::Damaged {
        offset,
        size,
        found,
        expected,
    }) = Configuration::decode(&document)
    else {
        panic!("the damage is found");
    };
    assert_eq!(offset + size, document.len());
    assert_ne!(found, expected);
}

#[test]
fn a_configuration_of_another_format_is_refused_by_its_format_whatever_follows() {
    let refused = |text: &str| Configuration::decode(text.as_bytes()).unwrap_err();
    let newer = refused("stonecast-configuration 5 another-tag with more\nanything");
    assert_eq!(newer, DocumentError::Newer { found: 5 });
    let older = refused("stonecast-configuration 1 another-tag with more\nanything");
    assert_eq!(older, DocumentError::Older { found: 1 });
}

/// A body with the right tag, as a faulty program may write it.
fn tagged(body: &str) -> Vec<u8> {
    format!(
        "stonecast-configuration 4 {:032x}\n{body}",
        xxh3_128_with_seed(body.as_bytes(), 4)
    )
    .into_bytes()
}

fn body() -> String {
    let document = String::from_utf8(placed().encode()).unwrap();
    document.split_once('\n').unwrap().1.to_owned()
}

#[test]
fn fields_that_this_program_does_not_know_are_refused() {
    let body = body().replacen("\"epoch\"", "\"quorum\": 2, \"epoch\"", 1);
    let refused = Configuration::decode(&tagged(&body)).unwrap_err();
    assert!(
        matches!(&refused, DocumentError::Malformed { reason } if reason.contains("quorum")),
        "{refused}"
    );
}

#[test]
fn format_2_is_read_as_long_as_it_says_nothing_of_copies_that_leave() {
    let as_format_2 = |document: Vec<u8>| {
        let document = String::from_utf8(document).unwrap();
        let (_, body) = document.split_once('\n').unwrap();
        let tag = xxh3_128(body.as_bytes());
        format!("stonecast-configuration 2 {tag:032x}\n{body}")
    };
    let written = placed();
    let older = as_format_2(written.encode());
    assert_eq!(Configuration::decode(older.as_bytes()), Ok(written));
    let spare = placed().register(&name("d"), &start(4)).unwrap();
    let moving = spare.add(&name("d")).unwrap();
    assert_eq!(Configuration::decode(&moving.encode()), Ok(moving.clone()));
    let refused = Configuration::decode(as_format_2(moving.encode()).as_bytes()).unwrap_err();
    assert!(
        matches!(&refused, DocumentError::Malformed { reason } if reason.contains("leaving")),
        "{refused}"
    );
}

/// Needs the digits as text: a reader of JSON may take a large number for a neighbour of it.
#[test]
fn the_seed_of_the_hashes_is_kept_and_no_message_shows_it() {
    let policy = Policy {
        hash_seed: Some(HashSeed(0xfedc_ba98_7654_3210)),
        ..Policy::new(3, 4)
    };
    let written = Configuration::create(NONCE, policy, an_attempt());
    let document = String::from_utf8(written.encode()).unwrap();
    assert!(document.contains("\"hash_seed\":\"fedcba9876543210\""));
    assert_eq!(
        Configuration::decode(document.as_bytes()),
        Ok(written.clone())
    );
    assert!(format!("{written:?}").contains("HashSeed(..)"));
    let (_, body) = document.split_once('\n').unwrap();
    for wrong in ["fedcba987654321", "FEDCBA9876543210", "+edcba9876543210"] {
        let body = body.replace("fedcba9876543210", wrong);
        let refused = Configuration::decode(&tagged(&body)).unwrap_err();
        assert!(!refused.to_string().contains(wrong), "{refused}");
        assert!(refused.to_string().contains("hash_seed"), "{refused}");
    }
    let tag = xxh3_128_with_seed(body.as_bytes(), 3);
    let older = format!("stonecast-configuration 3 {tag:032x}\n{body}");
    let refused = Configuration::decode(older.as_bytes()).unwrap_err();
    assert!(
        refused.to_string().contains("format 3 has no field"),
        "{refused}"
    );
}

#[test]
fn a_configuration_that_contradicts_itself_is_refused_with_the_contradiction() {
    let cases = [
        ("\"primary\":\"a\"", "\"primary\":\"z\"", "is not in sync"),
        ("\"shards\":4", "\"shards\":5", "the policy says 5"),
        ("\"replicas\":3", "\"replicas\":9", "it has to be 1 to 5"),
        (
            "\"survives\":\"power\"",
            "\"survives\":\"fire\"",
            "use process or power",
        ),
        (
            "\"last\":4611686018427387903",
            "\"last\":4611686018427387902",
            "do not follow each other",
        ),
        ("\"term\":5", "\"term\":6", "the epoch 5"),
        (
            "\"in_sync\":[\"a\",\"b\",\"c\"],\"joining\":{}",
            "\"in_sync\":[\"a\",\"b\"],\"joining\":{\"c\":6}",
            "c joins",
        ),
        ("\"joining\":{}", "\"joining\":{\"a\":5}", "and joins it"),
        (
            "\"joining\":{}",
            "\"joining\":{},\"leaving\":[\"d\"]",
            "leaves keys",
        ),
    ];
    for (from, to, complaint) in cases {
        let body = body();
        assert!(body.contains(from), "{from} is in {body}");
        let refused = Configuration::decode(&tagged(&body.replacen(from, to, 1))).unwrap_err();
        assert!(
            matches!(refused, DocumentError::Inconsistent(_)),
            "{refused}"
        );
        assert!(refused.to_string().contains(complaint), "{refused}");
    }
}

#[test]
fn other_text_is_no_configuration() {
    for text in [
        "",
        "\n",
        "{}",
        "stonecast-configuration\n",
        "stonecast-configuration x y\n{}",
    ] {
        assert_eq!(
            Configuration::decode(text.as_bytes()),
            Err(DocumentError::NotOne),
            "{text:?}"
        );
    }
}

/// Needs the body on one line: an indented body would be longer than an etcd takes.
#[test]
fn as_many_shards_as_there_may_be_fit_into_a_store() {
    let policy = Policy::new(Policy::REPLICAS_MAX, Policy::SHARDS_MAX);
    let mut largest = Configuration::create(NONCE, policy, an_attempt());
    for pool in 0..64 {
        let name = name(&format!("rack-07-node-{pool:02}"));
        largest = largest.register(&name, &start(pool)).unwrap();
        largest.nodes.get_mut(&name).unwrap().state = NodeState::Spare;
    }
    let size = largest.place_shards().unwrap().encode().len();
    assert!(size <= VALUE_SIZE_MAX, "{size} bytes");
}
