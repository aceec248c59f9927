//! `plan` and `litmus`: their output, their selectors, and their refusals.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::support::{Place, not_run, stonecast};

fn lines(arguments: &[&str]) -> Vec<Value> {
    let printed = stonecast(arguments);
    printed
        .text()
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON on each line"))
        .collect()
}

/// The selectors that identify a scenario.
fn selectors(line: &Value) -> [String; 5] {
    [
        "persistence",
        "ddio",
        "receive_buffers",
        "operation",
        "update",
    ]
    .map(|key| line[key].to_string())
}

#[test]
fn every_published_scenario_is_planned_in_one_line_of_json() {
    let plans = lines(&["plan", "--json"]);
    assert_eq!(plans.len(), 72);
    assert_eq!(
        plans.iter().map(selectors).collect::<BTreeSet<_>>().len(),
        72
    );
    for plan in &plans {
        let keys: BTreeSet<&str> = plan
            .as_object()
            .unwrap()
            .keys()
            .map(String::as_str)
            .collect();
        let expected = [
            "persistence",
            "ddio",
            "receive_buffers",
            "operation",
            "update",
            "steps",
            "round_trips",
            "one_sided",
        ];
        assert_eq!(keys, BTreeSet::from(expected));
        let steps: Vec<&str> = plan["steps"]
            .as_array()
            .unwrap()
            .iter()
            .map(|step| step.as_str().unwrap())
            .collect();
        assert!(
            steps
                .iter()
                .all(|step| step.starts_with("rq.") || step.starts_with("rsp.")),
            "{steps:?}"
        );
        assert_eq!(
            plan["one_sided"],
            Value::Bool(!steps.iter().any(|step| step.starts_with("rsp.")))
        );
    }
    let simplest = lines(&[
        "plan",
        "--json",
        "--persistence",
        "mhp",
        "--ddio",
        "on",
        "--receive-buffers",
        "dram",
        "--operation",
        "write",
        "--update",
        "single",
    ]);
    assert_eq!(simplest.len(), 1);
    assert_eq!(
        simplest[0]["steps"],
        serde_json::json!(["rq.write(a)", "rq.flush", "rq.await(flush)"])
    );
    assert_eq!(
        (&simplest[0]["round_trips"], &simplest[0]["ddio"]),
        (&1.into(), &true.into())
    );
}

#[test]
fn every_published_plan_is_proved_sound_and_each_of_its_steps_needed() {
    let proofs = lines(&["litmus", "--all", "--json"]);
    assert_eq!(proofs.len(), 72);
    assert_eq!(
        proofs.iter().map(selectors).collect::<BTreeSet<_>>().len(),
        72
    );
    for (proof, plan) in proofs.iter().zip(lines(&["plan", "--json"])) {
        assert_eq!(proof["sound"], true, "{proof}");
        assert!(
            proof["states"].as_u64().unwrap() > 3 && proof["crashes"].as_u64().unwrap() > 3,
            "{proof}"
        );
        let necessary = proof["necessary"].as_array().unwrap();
        let steps: Vec<&Value> = necessary.iter().map(|step| &step["step"]).collect();
        assert_eq!(
            steps,
            plan["steps"].as_array().unwrap().iter().collect::<Vec<_>>()
        );
        for step in necessary {
            let run = step["counterexample"].as_array().unwrap();
            assert!(
                run.last()
                    .unwrap()
                    .as_str()
                    .unwrap()
                    .starts_with("power cut: "),
                "{step}"
            );
        }
    }
    let told = stonecast(["litmus", "--persistence", "wsp"]);
    assert!(
        told.text().contains("24 plans are sound"),
        "{}",
        told.text()
    );
}

#[test]
fn all_published_scenarios_begin_with_one_table_and_a_selection_does_not() {
    let told = stonecast(["plan"]);
    let mut lines = told.text().lines();
    let header: Vec<&str> = lines
        .next()
        .unwrap()
        .split("  ")
        .filter(|word| !word.is_empty())
        .map(str::trim)
        .collect();
    assert_eq!(
        header,
        [
            "update",
            "persistence",
            "DDIO",
            "receive buffers",
            "write",
            "write-imm",
            "send"
        ]
    );
    let rows: Vec<Vec<&str>> = lines
        .by_ref()
        .take_while(|line| !line.is_empty())
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(rows.len(), 24, "72 scenarios, three in a row");
    assert_eq!(
        rows[0],
        [
            "single", "dmp", "on", "dram", "message", "1", "message", "1", "message", "1"
        ]
    );
    assert!(rows.contains(&vec![
        "compound", "dmp", "off", "dram", "flush", "1", "flush", "2", "message", "1"
    ]));
    assert!(rows.contains(&vec![
        "single",
        "wsp",
        "on",
        "pm",
        "completion",
        "1",
        "completion",
        "1",
        "completion",
        "1"
    ]));
    assert!(lines.next().unwrap().contains("round trips") || told.text().contains("round trips"));
    let one = stonecast(["plan", "--persistence", "wsp", "--operation", "send"]);
    assert!(!one.text().starts_with("update"), "{}", one.text());
}

#[test]
fn a_plan_is_shown_to_people_with_columns_reasons_crashes_and_assumptions() {
    let told = stonecast([
        "plan",
        "--profile",
        "eadr",
        "--operation",
        "write",
        "--update",
        "compound",
    ]);
    let text = told.text();
    for part in [
        "platform: eadr",
        "requester",
        "responder",
        "rq.flush",
        "cost: 1 round trip, one-sided",
        "proof: sound",
        "without it: ",
        "power cut: ",
        "what is assumed",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
    let told = stonecast([
        "plan",
        "--persistence",
        "dmp",
        "--ddio",
        "on",
        "--receive-buffers",
        "dram",
        "--operation",
        "send",
        "--update",
        "single",
    ]);
    let column = |step: &str| {
        told.text()
            .lines()
            .find(|line| line.contains(step))
            .and_then(|line| line.find(step))
            .unwrap()
    };
    assert!(
        column("rsp.copy(a)") > column("rq.send(a)") + 4,
        "two columns:\n{}",
        told.text()
    );
}

#[test]
fn an_append_is_planned_if_it_is_selected_or_a_profile_is_named() {
    let append = [
        "plan",
        "--json",
        "--update",
        "single",
        "--operation",
        "append",
    ];
    let plans = lines(&append);
    assert_eq!(plans.len(), 12, "one for each published platform");
    let of_profile = lines(&["plan", "--json", "--profile", "connectx5-rowan"]);
    let steps: Vec<_> = of_profile
        .iter()
        .filter(|plan| plan["operation"] == "append" && plan["update"] == "single")
        .map(|plan| plan["steps"].clone())
        .collect();
    assert_eq!(
        steps,
        [serde_json::json!([
            "rq.append(a)",
            "rq.read",
            "rq.await(read)"
        ])]
    );
    let told = stonecast([
        "plan",
        "--profile",
        "connectx5-rowan",
        "--operation",
        "append",
    ]);
    for part in [
        "append: single update a",
        "a READ, answered after",
        "cost: 1 round trip, one-sided",
    ] {
        assert!(
            told.text().contains(part),
            "{part} is not in\n{}",
            told.text()
        );
    }
}

#[test]
fn the_page_holds_everything_in_one_file() {
    let place = Place::in_volatile_memory();
    let page = place.path().join("plan.html");
    let arguments = [
        "plan",
        "--json",
        "--operation",
        "write-imm",
        "--update",
        "single",
        "--html",
        page.to_str().unwrap(),
    ];
    assert_eq!(lines(&arguments).len(), 12);
    let text = fs::read_to_string(&page).unwrap();
    assert!(text.starts_with("<!doctype html>") && text.ends_with("</html>\n"));
    for part in [
        "rq.write_imm(a)",
        "power_cut",
        "type=\"range\"",
        "io-controller",
    ] {
        assert!(text.contains(part), "{part}");
    }
    assert!(
        !text.contains("src=") && !text.contains("href="),
        "nothing is loaded from elsewhere"
    );
    let refused = stonecast([
        "plan",
        "--html",
        "/no/such/folder/plan.html",
        "--persistence",
        "wsp",
        "--operation",
        "send",
    ]);
    assert_eq!(refused.code, Some(1));
    assert!(
        refused.stderr.contains("/no/such/folder/plan.html"),
        "{}",
        refused.stderr
    );
}

/// Checks the page in a real browser, if there is one. The page has the most parts if messages carry both updates.
#[test]
fn the_page_fits_into_500_pixels_and_marks_a_step_when_it_opens() {
    let name = "the_page_fits_into_500_pixels_and_marks_a_step_when_it_opens";
    let Some(browser) = ["chromium", "chromium-browser", "google-chrome"]
        .into_iter()
        .find(|name| Command::new(name).arg("--version").output().is_ok())
    else {
        return not_run(name, "no chromium is installed");
    };
    let place = Place::in_volatile_memory();
    let page = place.path().join("plan.html");
    let file = page.to_str().unwrap();
    stonecast([
        "plan",
        "--persistence",
        "dmp",
        "--ddio",
        "on",
        "--update",
        "compound",
        "--html",
        file,
    ])
    .text();
    let measure = "<script>document.title = [document.documentElement.scrollWidth, \
         document.getElementById('picture').parentElement.scrollWidth - document.getElementById('picture').parentElement.clientWidth, \
         document.querySelectorAll('[aria-current=step]').length].join(' ')</script></body>";
    let text = fs::read_to_string(&page).unwrap();
    fs::write(&page, text.replace("</body>", measure)).unwrap();
    let shown = Command::new(browser)
        .args([
            "--headless",
            "--hide-scrollbars",
            "--no-sandbox",
            "--disable-gpu",
            "--dump-dom",
            "--window-size=500,900",
        ])
        .arg(format!(
            "--user-data-dir={}",
            place.path().join("browser").display()
        ))
        .arg(format!("file://{file}"))
        .output()
        .unwrap();
    let dom = String::from_utf8_lossy(&shown.stdout);
    let title = dom
        .split_once("<title>")
        .and_then(|(_, rest)| rest.split_once("</title>"));
    let Some((title, _)) = title else {
        return not_run(name, "the browser shows no page");
    };
    assert_eq!(
        title, "500 0 1",
        "width of the page, what the picture lacks, marked steps"
    );
}

#[test]
fn the_reason_is_given_for_a_platform_without_a_plan() {
    let refused = stonecast([
        "plan",
        "--persistence",
        "volatile",
        "--operation",
        "write",
        "--update",
        "single",
    ]);
    assert!(
        refused.refusal(1).contains("nothing survives a power cut"),
        "{}",
        refused.stderr
    );
    let said = lines(&[
        "plan",
        "--json",
        "--persistence",
        "volatile",
        "--operation",
        "write",
        "--update",
        "single",
    ]);
    assert!(said.iter().all(|line| {
        line["no_plan"]
            .as_str()
            .unwrap()
            .contains("nothing survives")
            && line.get("steps").is_none()
    }));
}

const PROFILE: &str = "\
name = \"mine\"
summary = \"One line.\"
persistence = { value = \"dmp\", by = \"me\", evidence = \"looked\" }
ddio = { value = \"off\", by = \"me\", evidence = \"looked\" }
receive_buffers = { value = \"dram\", by = \"me\", evidence = \"looked\" }
transport = { value = \"infiniband\", by = \"me\", evidence = \"looked\" }
flush = { value = \"read\", by = \"me\", evidence = \"looked\" }
atomic_write = { value = false, by = \"me\", evidence = \"looked\" }
relaxed_ordering = { value = false, by = \"me\", evidence = \"looked\" }
trusted_nic_buffers = { value = false, by = \"me\", evidence = \"looked\" }
";

#[test]
fn a_profile_in_a_file_is_planned_for() {
    let place = Place::in_volatile_memory();
    let file = place.path().join("mine.toml");
    fs::write(&file, PROFILE).unwrap();
    let plans = lines(&[
        "plan",
        "--json",
        "--profile",
        file.to_str().unwrap(),
        "--operation",
        "write",
    ]);
    assert_eq!(plans.len(), 2);
    assert_eq!(
        plans[0]["steps"],
        serde_json::json!(["rq.write(a)", "rq.flush", "rq.await(flush)"])
    );
    assert_eq!(
        plans[1]["round_trips"], 2,
        "without ATOMIC_WRITE b waits for a"
    );
}

#[test]
fn a_bad_profile_is_wrong_usage_and_the_error_names_the_line_and_what_is_allowed() {
    let place = Place::in_volatile_memory();
    let file = place.path().join("bad.toml");
    for (old, new, parts) in [
        ("\"dmp\"", "\"adr\"", ["bad.toml:3", "dmp"]),
        ("\"off\"", "\"maybe\"", ["bad.toml:4", "on, off or unknown"]),
        ("flush =", "flash =", ["bad.toml:7", "flush"]),
        (
            "trusted_nic_buffers = { value = false",
            "trusted_nic_buffers = { value = true",
            ["bad.toml:10", "trusted_nic_buffers = false"],
        ),
        ("value = \"read\"", "value = 7", ["bad.toml:7", "string"]),
        ("name = \"mine\"", "name = ", ["bad.toml:1", ""]),
    ] {
        assert!(PROFILE.contains(old), "{old}");
        fs::write(&file, PROFILE.replace(old, new)).unwrap();
        for command in ["plan", "litmus"] {
            let refused = stonecast([command, "--profile", file.to_str().unwrap()]);
            let said = refused.refusal(2);
            parts
                .iter()
                .for_each(|part| assert!(said.contains(part), "{new}\n gave {said}\n not  {part}"));
        }
    }
}

#[test]
fn contradictions_and_unknown_words_are_wrong_usage() {
    for (arguments, part) in [
        (
            &["--profile", "/no/such/profile.toml"][..],
            "connectx4-taxonomy",
        ),
        (
            &["--persistence", "adr"],
            "use volatile, page-file, dmp, mhp or wsp",
        ),
        (&["--update", "twice"], "use single or compound"),
        (
            &["--persistence", "page-file", "--receive-buffers", "pm"],
            "receive_buffers = pm contradicts persistence = page-file",
        ),
        (
            &["--transport", "iwarp", "--flush", "native-global"],
            "iWARP has no FLUSH",
        ),
        (&["--update", "single", "--large"], "--large"),
        (&["--port", "mlx5_0/1"], "--profile"),
        (
            &["--profile", "eadr", "--port", "mlx5_0/1"],
            "declares no port",
        ),
    ] {
        let refused = stonecast(["plan"].iter().chain(arguments));
        assert!(
            refused.refusal(2).contains(part),
            "{arguments:?}: {}",
            refused.stderr
        );
    }
}
