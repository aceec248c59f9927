//! The state of a cluster on one screen.

use std::time::Duration;

use stonecast_cluster::{Configuration, NodeName, Overview};
use stonecast_media::Durability;

use super::words::{counted, list, sentence, subjects};
use crate::output::{WIDTH, wrap};

/// The most placements on a screen.
const PLACEMENTS_MAX: usize = 24;

/// The text of the screen.
pub fn screen(store: &str, configuration: &Configuration, asked: Option<Vec<String>>) -> String {
    let overview = configuration.overview();
    let mut text = summary(store, configuration, &overview);
    if !configuration.nodes.is_empty() {
        text.push('\n');
        align(&mut text, nodes(configuration, &overview));
    }
    if !overview.placements.is_empty() {
        text.push('\n');
        align(&mut text, placements(&overview));
        let hidden = overview.placements.len().saturating_sub(PLACEMENTS_MAX);
        if hidden > 0 {
            text += &format!("{hidden} more lines: --json has all of them\n");
        }
    }
    if asked.is_some() {
        text += "\nasked\n";
    }
    for answer in asked.into_iter().flatten() {
        wrap(&mut text, "  ", "  ", &answer);
    }
    if !overview.needs.is_empty() {
        text += "\nnext\n";
    }
    for need in &overview.needs {
        wrap(&mut text, "  ", "  ", &sentence(need, configuration));
    }
    text
}

fn summary(store: &str, configuration: &Configuration, overview: &Overview<'_>) -> String {
    let policy = &configuration.policy;
    let time = |nanoseconds| humantime::format_duration(Duration::from_nanos(nanoseconds));
    let rows = [
        ("cluster", format!("{} in {store}", configuration.nonce)),
        (
            "epoch",
            format!(
                "{}, written by {}",
                configuration.epoch, configuration.attempt.writer
            ),
        ),
        (
            "copies",
            format!(
                "{} of each of {}; writes need {} in sync",
                policy.replicas,
                counted(policy.shards as usize, "shard", "shards"),
                policy.min_copies
            ),
        ),
        (
            "lease",
            format!(
                "{}; a node that is silent for {} loses its copies",
                time(policy.lease.duration_ns),
                time(policy.remove_after_ns)
            ),
        ),
        ("survives", survives(overview)),
    ];
    let mut text = String::new();
    for (name, value) in rows {
        wrap(&mut text, "          ", &format!("{name:<10}"), &value);
    }
    text
}

/// The failures that an acknowledged write survives.
fn survives(overview: &Overview<'_>) -> String {
    let promise = match overview.survives {
        None => return "nothing is acknowledged yet: no shard is placed".to_owned(),
        Some(Durability::Power) => "an acknowledged write survives a power cut of all nodes",
        Some(Durability::Process) => {
            "an acknowledged write survives the death of all processes, and no power cut of all nodes"
        }
    };
    if overview.weakest.is_empty() {
        return promise.to_owned();
    }
    let names = list(&overview.weakest);
    format!("{promise}, because of {names}: the other nodes promise to survive a power cut")
}

fn nodes(configuration: &Configuration, overview: &Overview<'_>) -> Vec<Vec<String>> {
    let heading = "NODE STATE STARTS LEADS COPIES JOINS LEAVES SURVIVES DOMAIN DDIO ZONE ADDRESSES";
    let mut rows = vec![heading.split(' ').map(str::to_owned).collect()];
    for (name, node) in &configuration.nodes {
        let held = overview.held[name];
        rows.push(vec![
            name.to_string(),
            node.state.to_string(),
            node.incarnation.to_string(),
            held.leads.to_string(),
            held.in_sync.to_string(),
            held.joins.to_string(),
            held.leaves.to_string(),
            node.survives.clone(),
            node.platform.persistence_domain.clone(),
            node.platform.ddio.clone(),
            node.zone.clone().unwrap_or_else(|| "-".to_owned()),
            list(&node.addresses),
        ]);
    }
    rows
}

fn placements(overview: &Overview<'_>) -> Vec<Vec<String>> {
    let heading = "PRIMARY|IN SYNC|JOINING|LEAVING|MISSING|GROUPS|SHARDS";
    let mut rows = vec![heading.split('|').map(str::to_owned).collect()];
    for placement in overview.placements.iter().take(PLACEMENTS_MAX) {
        let groups = placement.shard_count() + placement.back_ends.len();
        rows.push(vec![
            placement.group.primary.to_string(),
            list(&placement.group.in_sync),
            names(placement.group.joining.keys()),
            names(&placement.group.leaving),
            placement.missing.to_string(),
            groups.to_string(),
            subjects(placement),
        ]);
    }
    rows
}

/// The names in a cell, which is never empty.
fn names<'a>(names: impl IntoIterator<Item = &'a NodeName>) -> String {
    let list = list(names);
    if list.is_empty() {
        "-".to_owned()
    } else {
        list
    }
}

/// Appends rows with aligned columns. A last column that exceeds the line is cut.
fn align(text: &mut String, rows: Vec<Vec<String>>) {
    let columns = rows[0].len();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<_> = (0..columns)
        .map(|column| width(column).unwrap_or(0))
        .collect();
    for row in &rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            line += &format!("{cell:<width$}  ");
        }
        let line = line.trim_end();
        match line.char_indices().nth(WIDTH) {
            None => *text += line,
            Some(_) => {
                let kept: String = line.chars().take(WIDTH - 1).collect();
                *text += &kept;
                text.push('…');
            }
        }
        text.push('\n');
    }
}
