//! Profiles: the shipped ones, and the errors of bad ones.

use std::collections::HashSet;
use std::path::Path;

use stonecast_media::{Ddio, PersistenceDomain};
use stonecast_persist::{Axis, PlatformProfile, ProfileError};

/// A valid profile; each test spoils one line.
const GOOD: &str = r#"name = "lab"
summary = "A machine in a laboratory."

[persistence]
value = "dmp"
by = "the kernel"
evidence = "memory_controller"

[ddio]
value = "unknown"
by = "nobody"
evidence = "none"

[receive_buffers]
value = "pm"
by = "us"
evidence = "allocated there"

[transport]
value = "infiniband"
by = "us"
evidence = "the cable"

[flush]
value = "read"
by = "the driver"
evidence = "no FLUSH"

[atomic_write]
value = false
by = "the driver"
evidence = "no bit"

[relaxed_ordering]
value = false
by = "us"
evidence = "not asked for"

[trusted_nic_buffers]
value = false
by = "nobody"
evidence = "none"
"#;

fn error(text: &str) -> String {
    PlatformProfile::parse("lab.toml", text)
        .unwrap_err()
        .to_string()
}

/// The line of `GOOD`, from 1, that contains `part`.
fn line_of(part: &str) -> usize {
    GOOD[..GOOD.find(part).unwrap()].lines().count()
        + usize::from(GOOD[..GOOD.find(part).unwrap()].ends_with('\n'))
}

#[test]
fn every_shipped_profile_has_a_name_of_its_own_and_evidence_for_each_axis() {
    let shipped = PlatformProfile::shipped();
    assert_eq!(shipped.len(), 10);
    assert_eq!(
        shipped
            .iter()
            .map(PlatformProfile::name)
            .collect::<HashSet<_>>()
            .len(),
        shipped.len()
    );
    for profile in &shipped {
        assert!(!profile.summary().is_empty());
        let axes: Vec<Axis> = profile
            .declarations()
            .iter()
            .map(|declaration| declaration.axis)
            .collect();
        assert_eq!(axes, Axis::ALL, "{}", profile.name());
        assert_eq!(
            PlatformProfile::named_or_at(profile.name()).unwrap(),
            *profile
        );
        assert!(PlatformProfile::shipped_names().contains(profile.name()));
    }
}

#[test]
fn unknown_ddio_counts_as_on() {
    let profile = PlatformProfile::parse("lab.toml", GOOD).unwrap();
    assert_eq!((profile.name(), profile.platform().ddio), ("lab", Ddio::On));
    assert_eq!(profile.declarations()[1].value, "unknown");
}

#[test]
fn ports_differ_only_in_ddio() {
    let text = format!(
        "{GOOD}\n[[port]]\nname = \"mlx5_0/1\"\nddio = {{ value = \"off\", by = \"us\", evidence = \"register\" }}\n"
    );
    let profile = PlatformProfile::parse("lab.toml", &text).unwrap();
    assert_eq!(profile.platform_at("mlx5_0/1").ddio, Ddio::Off);
    assert_eq!(
        profile.platform_at("mlx5_1/1"),
        profile.platform(),
        "a port without a declaration"
    );
    assert_eq!(
        profile.platform_at("mlx5_0/1").persistence,
        PersistenceDomain::Dmp
    );
    let twice = format!(
        "{text}\n[[port]]\nname = \"mlx5_0/1\"\nddio = {{ value = \"on\", by = \"us\", evidence = \"register\" }}\n"
    );
    assert!(error(&twice).ends_with("port \"mlx5_0/1\" is declared twice; keep one"));
}

#[test]
fn an_unknown_key_is_refused_with_its_line_and_the_known_keys() {
    let said = error(&GOOD.replace("[flush]", "[flushing]"));
    assert!(
        said.starts_with(&format!(
            "lab.toml:{}:2: unknown field `flushing`",
            line_of("[flush]")
        )),
        "{said}"
    );
    assert!(
        said.contains("`flush`") && said.contains("`trusted_nic_buffers`"),
        "{said}"
    );
    let said = error(&GOOD.replace("evidence = \"the cable\"", "proof = \"the cable\""));
    assert!(
        said.starts_with(&format!(
            "lab.toml:{}:1: unknown field `proof`",
            line_of("evidence = \"the cable\"")
        )),
        "{said}"
    );
    assert!(said.contains("`evidence`"), "{said}");
}

#[test]
fn an_unknown_word_is_refused_with_its_line_and_the_known_words() {
    let said = error(&GOOD.replace("\"dmp\"", "\"adr\""));
    let line = line_of("value = \"dmp\"");
    assert_eq!(
        said,
        format!(
            "lab.toml:{line}:9: unknown persistence domain \"adr\"; use volatile, page-file, dmp, mhp or wsp"
        )
    );
    let said = error(&GOOD.replace("\"unknown\"", "\"perhaps\""));
    assert!(
        said.ends_with(
            "unknown DDIO state \"perhaps\"; use on, off or unknown (which counts as on)"
        ),
        "{said}"
    );
}

#[test]
fn a_value_of_another_kind_is_refused_with_its_line() {
    let said = error(&GOOD.replace(
        "[atomic_write]\nvalue = false",
        "[atomic_write]\nvalue = \"no\"",
    ));
    let line = line_of("[atomic_write]") + 1;
    assert!(
        said.starts_with(&format!(
            "lab.toml:{line}:9: invalid type: string \"no\", expected a boolean"
        )),
        "{said}"
    );
}

#[test]
fn a_missing_axis_and_missing_evidence_are_named() {
    let without = GOOD.replace(
        "[trusted_nic_buffers]\nvalue = false\nby = \"nobody\"\nevidence = \"none\"\n",
        "",
    );
    assert!(
        error(&without).contains("missing field `trusted_nic_buffers`"),
        "{}",
        error(&without)
    );
    let said = error(&GOOD.replace("evidence = \"memory_controller\"\n", ""));
    assert!(
        said.starts_with(&format!("lab.toml:{}:", line_of("[persistence]")))
            && said.contains("missing field `evidence`"),
        "{said}"
    );
    let said = error(&GOOD.replace("\"memory_controller\"", "\" \""));
    let line = line_of("evidence = \"memory_controller\"");
    assert!(
        said.starts_with(&format!(
            "lab.toml:{line}:12: persistence lacks evidence: why to believe it"
        )),
        "{said}"
    );
    let said = error(&GOOD.replace("\"lab\"", "\"\""));
    assert_eq!(
        said,
        "lab.toml:1:8: the name is empty; give the profile a name"
    );
}

#[test]
fn a_contradiction_is_refused_with_the_line_to_change() {
    let text = GOOD.replace(
        "[trusted_nic_buffers]\nvalue = false",
        "[trusted_nic_buffers]\nvalue = true",
    );
    let refused = PlatformProfile::parse("lab.toml", &text).unwrap_err();
    let line = line_of("[trusted_nic_buffers]") + 1;
    assert!(
        matches!(refused, ProfileError::Contradiction { line: at, .. } if at == line),
        "{refused}"
    );
    assert_eq!(
        refused.to_string(),
        format!(
            "lab.toml:{line}:9: trusted_nic_buffers = true contradicts persistence = dmp: NIC buffers survive only where the \
             whole system does; use trusted_nic_buffers = false"
        )
    );
}

#[test]
fn invalid_toml_is_refused_with_its_line() {
    let said = error(&GOOD.replace("[flush]", "[flush"));
    assert!(
        said.starts_with(&format!("lab.toml:{}:", line_of("[flush]"))),
        "{said}"
    );
    assert!(
        error("").starts_with("lab.toml:1:1: missing field `name`"),
        "{}",
        error("")
    );
}

#[test]
fn an_unreadable_file_is_named_with_the_shipped_profiles() {
    let said = PlatformProfile::read(Path::new("/nowhere/lab.toml"))
        .unwrap_err()
        .to_string();
    assert!(
        said.starts_with("cannot read the profile /nowhere/lab.toml: No such file"),
        "{said}"
    );
    assert!(said.contains("soft-roce-guest"), "{said}");
    assert!(
        PlatformProfile::named_or_at("my-guess")
            .unwrap_err()
            .to_string()
            .contains("cannot read the profile my-guess")
    );
}
