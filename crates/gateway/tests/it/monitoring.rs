//! The dashboard and the alert rules ask for metrics that exist.

use std::collections::BTreeSet;

const PAGE: &str = include_str!("../../../../docs/gateway.md");
const RULES: &str = include_str!("../../../../packaging/prometheus/stonecast.rules.yml");
const DASHBOARD: &str = include_str!("../../../../packaging/grafana/stonecast.json");

/// The metrics that `text` names, without the ends that the parts of counters and histograms have.
fn metrics(text: &str) -> BTreeSet<&str> {
    let names = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    names
        .filter(|name| name.starts_with("stonecast_"))
        .map(|name| name.strip_suffix("_total").unwrap_or(name))
        .map(|name| name.strip_suffix("_bucket").unwrap_or(name))
        .collect()
}

/// Needs the names of the page: another test holds the page against the metrics of a server.
#[test]
fn alerts_and_the_dashboard_ask_for_documented_metrics() {
    for (file, text) in [("rules", RULES), ("dashboard", DASHBOARD)] {
        let asked = metrics(text);
        assert!(asked.len() >= 15, "{file}: {asked:?}");
        for name in asked {
            assert!(
                PAGE.contains(&format!("`{name}`")),
                "{file}: {name} is not in docs/gateway.md"
            );
        }
    }
}

/// Needs an identity and a target for each panel: Grafana shows the last of two panels with one identity.
#[test]
fn the_dashboard_is_one_that_grafana_imports() {
    let dashboard: serde_json::Value = serde_json::from_str(DASHBOARD).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let identities: BTreeSet<u64> = panels
        .iter()
        .map(|panel| panel["id"].as_u64().unwrap())
        .collect();
    assert_eq!(identities.len(), panels.len());
    for panel in panels {
        let title = panel["title"].as_str().unwrap();
        let targets = panel["targets"].as_array().unwrap();
        assert!(
            targets.iter().all(|target| target["expr"].is_string()) && !targets.is_empty(),
            "{title}"
        );
        let place = |key: &str| panel["gridPos"][key].as_u64().unwrap();
        assert!(place("x") + place("w") <= 24, "{title} fits the grid");
    }
}
