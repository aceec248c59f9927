//! The tables of `docs/persistence.md`, printed. With `STONECAST_WRITE_PAGES=1` in the environment they are written to
//! the page.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs};

use stonecast_media::{Ddio, DeclaredPlatform, PersistenceDomain, ReceiveBuffers};
use stonecast_persist::litmus::{Verdict, assumptions, check, prove, witnesses};
use stonecast_persist::search::{Difference, Scope, Searcher, compare};
use stonecast_persist::{
    Axis, FlushKind, Operation, Party, Plan, Platform, PlatformProfile, Program, Scenario,
    Transport, Update, plan, plan_for, published_platforms, scenarios,
};

const PAGE: &str = "../../docs/persistence.md";
const COMPOUND: Update = Update::Compound { large: false };

#[test]
fn the_tables_of_the_page_match_the_code() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(PAGE);
    let page = fs::read_to_string(&path).expect("the page exists");
    let mut expected = page.clone();
    for (name, table) in tables() {
        let (start, end) = (format!("<!-- printed: {name} -->\n"), "<!-- end -->");
        let (before, rest) = expected
            .split_once(&start)
            .unwrap_or_else(|| panic!("the page has no marker {start}"));
        let (_, after) = rest
            .split_once(end)
            .unwrap_or_else(|| panic!("{start} has no end"));
        expected = format!("{before}{start}\n{table}\n{end}{after}");
    }
    if env::var_os("STONECAST_WRITE_PAGES").is_some() {
        fs::write(&path, expected).expect("the page can be written");
        return;
    }
    assert!(
        page == expected,
        "docs/persistence.md does not match the code; run\nSTONECAST_WRITE_PAGES=1 cargo test -p stonecast-persist page"
    );
}

fn tables() -> Vec<(&'static str, String)> {
    let methods = Methods::collect();
    vec![
        ("profiles", profiles()),
        ("matrix", matrix()),
        ("published", methods.by_platform()),
        ("methods", methods.list()),
        ("proof", proof()),
        ("necessity", methods.necessity()),
        ("assumptions", methods.assumptions()),
        ("appends", appends()),
        ("append-necessity", append_necessity()),
        ("search", search()),
        ("differences", differences()),
        ("rules", rules()),
    ]
}

/// The different programs among the plans of the 72 scenarios, in the order in which the tables come to them.
struct Methods {
    plans: Vec<(String, Plan)>,
}

impl Methods {
    fn collect() -> Self {
        let mut plans: Vec<(String, Plan)> = Vec::new();
        for scenario in scenarios() {
            let plan = plan_of(&scenario);
            if plans
                .iter()
                .any(|(_, earlier)| earlier.program() == plan.program())
            {
                continue;
            }
            let letter = if scenario.update.is_compound() {
                'C'
            } else {
                'S'
            };
            let number = plans
                .iter()
                .filter(|(name, _)| name.starts_with(letter))
                .count()
                + 1;
            plans.push((format!("{letter}{number}"), plan));
        }
        Self { plans }
    }

    fn name(&self, program: &Program) -> &str {
        &self
            .plans
            .iter()
            .find(|(_, plan)| plan.program() == program)
            .expect("every plan was collected")
            .0
    }

    fn by_platform(&self) -> String {
        let mut table =
            "| persistence | DDIO | receive buffers | single: write | write-imm | send | compound: write | write-imm | send |\n\
                         | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n"
                .to_owned();
        for persistence in [
            PersistenceDomain::Dmp,
            PersistenceDomain::Mhp,
            PersistenceDomain::Wsp,
        ] {
            for platform in published_platforms()
                .iter()
                .filter(|platform| platform.persistence == persistence)
            {
                write!(
                    table,
                    "| {persistence} | {} | {} |",
                    platform.ddio, platform.receive_buffers
                )
                .unwrap();
                for update in [Update::Single, COMPOUND] {
                    for operation in Operation::PUBLISHED {
                        let plan = plan_for(platform, *operation, update).unwrap();
                        write!(table, " {} |", self.name(plan.program())).unwrap();
                    }
                }
                table.push('\n');
            }
        }
        table
    }

    fn list(&self) -> String {
        let mut table = "| | requester | responder | round trips | responder's steps | work requests |\n| --- | --- | --- | --- | --- | --- |\n".to_owned();
        for (name, plan) in &self.plans {
            let (requester, responder) = (
                side(plan.program(), Party::Requester),
                side(plan.program(), Party::Responder),
            );
            let cost = plan.cost();
            let numbers = format!(
                "{} | {} | {}",
                cost.round_trips, cost.responder_steps, cost.operations
            );
            writeln!(table, "| {name} | {requester} | {responder} | {numbers} |").unwrap();
        }
        table
    }

    fn necessity(&self) -> String {
        let mut table =
            "| | without | a shortest run to a crash that breaks it |\n| --- | --- | --- |\n"
                .to_owned();
        for (name, plan) in &self.plans {
            for (index, necessity) in prove(plan).necessary.iter().enumerate() {
                let number = if plan
                    .steps()
                    .iter()
                    .filter(|step| **step == necessity.step)
                    .count()
                    > 1
                {
                    let earlier = plan.steps()[..index]
                        .iter()
                        .filter(|step| **step == necessity.step)
                        .count();
                    [" (first)", " (second)"][earlier]
                } else {
                    ""
                };
                writeln!(
                    table,
                    "| {name} | `{}`{number} | {} |",
                    necessity.step,
                    necessity.counterexample.join("; ")
                )
                .unwrap();
            }
        }
        table
    }

    fn assumptions(&self) -> String {
        let mut table = "| | on | breaks if |\n| --- | --- | --- |\n".to_owned();
        for (name, plan) in &self.plans {
            let breaks = breaks_if(plan);
            writeln!(
                table,
                "| {name} | {} | {breaks} |",
                on(&plan.scenario().platform)
            )
            .unwrap();
        }
        table
    }
}

/// A platform for each way in which an append becomes durable, or fails to.
fn append_plans() -> Vec<Plan> {
    use Ddio::{Off, On};
    use PersistenceDomain::{Dmp, Mhp, PageFile, Wsp};
    let of = |persistence_domain, ddio| {
        Platform::of(DeclaredPlatform {
            persistence_domain,
            ddio,
            receive_buffers: ReceiveBuffers::Dram,
        })
    };
    let relaxed = |platform| Platform {
        relaxed_ordering: true,
        ..platform
    };
    let platforms = [
        of(Wsp, On),
        Platform {
            trusted_nic_buffers: false,
            ..of(Wsp, On)
        },
        Platform {
            transport: Transport::Iwarp,
            atomic_write: false,
            ..of(Wsp, On)
        },
        of(Mhp, On),
        relaxed(of(Mhp, On)),
        of(Dmp, Off),
        relaxed(of(Dmp, Off)),
        of(Dmp, On),
        Platform {
            flush: FlushKind::NativePersistent,
            ..of(Dmp, On)
        },
        of(PageFile, On),
    ];
    let plan = |platform| plan_for(platform, Operation::Append, Update::Single).unwrap();
    platforms.iter().map(plan).collect()
}

fn appends() -> String {
    let mut table = "| on | plan of an entry | round trips | responder's steps | breaks if |\n| --- | --- | --- | --- | --- |\n".to_owned();
    for plan in append_plans() {
        let (platform, cost) = (&plan.scenario().platform, plan.cost());
        writeln!(
            table,
            "| {} | {} | {} | {} | {} |",
            described(platform).replace(", dram", ""),
            code(plan.program()),
            cost.round_trips,
            cost.responder_steps,
            breaks_if(&plan)
        )
        .unwrap();
    }
    table
}

fn append_necessity() -> String {
    let mut table = "| plan of an entry | without | a shortest run to a crash that breaks it |\n| --- | --- | --- |\n".to_owned();
    let mut seen = Vec::new();
    for plan in append_plans() {
        if seen.contains(plan.program()) {
            continue;
        }
        for necessity in prove(&plan).necessary {
            writeln!(
                table,
                "| {} | `{}` | {} |",
                code(plan.program()),
                necessity.step,
                necessity.counterexample.join("; ")
            )
            .unwrap();
        }
        seen.push(plan.program().clone());
    }
    table
}

/// The answers on other axes under which `plan` breaks.
fn breaks_if(plan: &Plan) -> String {
    let assumed = assumptions(plan);
    let breaks = assumed
        .iter()
        .filter(|assumption| assumption.otherwise != "volatile");
    let breaks: Vec<String> = breaks
        .map(|assumption| format!("`{} = {}`", assumption.axis, assumption.otherwise))
        .collect();
    if breaks.is_empty() {
        "—".to_owned()
    } else {
        breaks.join(", ")
    }
}

fn plan_of(scenario: &Scenario) -> Plan {
    plan_for(&scenario.platform, scenario.operation, scenario.update).unwrap()
}

fn on(platform: &Platform) -> String {
    let ddio = if platform.ddio == Ddio::On {
        "DDIO"
    } else {
        "no DDIO"
    };
    format!(
        "{}, {ddio}, {}",
        platform.persistence, platform.receive_buffers
    )
}

fn side(program: &Program, party: Party) -> String {
    let steps: Vec<String> = program.of(party).map(|step| format!("`{step}`")).collect();
    if steps.is_empty() {
        "—".to_owned()
    } else {
        steps.join(" ")
    }
}

fn code(program: &Program) -> String {
    program
        .steps()
        .iter()
        .map(|step| format!("`{step}`"))
        .collect::<Vec<_>>()
        .join(" ")
}

fn profiles() -> String {
    let mut table = "| profile | persistence | DDIO | receive buffers | transport | flush | ATOMIC_WRITE | relaxed ordering | NIC buffers trusted | what it is |\n\
                     | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n"
        .to_owned();
    for profile in PlatformProfile::shipped() {
        write!(table, "| `{}` |", profile.name()).unwrap();
        for declaration in profile.declarations() {
            write!(
                table,
                " {} |",
                declaration
                    .value
                    .replace("false", "no")
                    .replace("true", "yes")
            )
            .unwrap();
        }
        writeln!(table, " {} |", profile.summary()).unwrap();
    }
    table
}

fn matrix() -> String {
    let mut table =
        "| profile | operation | single | compound, `b` of 8 bytes |\n| --- | --- | --- | --- |\n"
            .to_owned();
    for profile in PlatformProfile::shipped() {
        for operation in Operation::ALL {
            let cell = |update| match plan(&profile, *operation, update) {
                Ok(plan) => code(plan.program()),
                Err(reason) => reason.to_string(),
            };
            let (single, compound) = (cell(Update::Single), cell(COMPOUND));
            writeln!(
                table,
                "| `{}` | {operation} | {single} | {compound} |",
                profile.name()
            )
            .unwrap();
        }
    }
    table
}

fn proof() -> String {
    let (mut sound, mut minimal, mut steps, mut necessary, mut states, mut crashes) =
        (0, 0, 0, 0, 0, 0);
    let all = scenarios();
    for scenario in &all {
        let proof = prove(&plan_of(scenario));
        sound += u64::from(proof.sound);
        minimal += u64::from(proof.is_minimal());
        steps += proof.necessary.len();
        necessary += proof
            .necessary
            .iter()
            .filter(|necessity| necessity.run.is_some())
            .count();
        states += proof.states;
        crashes += proof.crashes;
    }
    let of = all.len();
    format!(
        "{sound} of {of} plans are sound ({states} states, {crashes} ways in which power can fail in them); {minimal} of {of} are \
         minimal: {necessary} of {steps} steps are necessary.\n"
    )
}

fn search() -> String {
    let mut text = "| operations that carry the values | same cost as published | cheaper | published one unsound | programs tried |\n| --- | --- | --- | --- | --- |\n".to_owned();
    for scope in [Scope::Pure, Scope::Mixed] {
        let mut searcher = Searcher::default();
        let mut counts = BTreeMap::from([("same", 0), ("cheaper", 0), ("unsound", 0)]);
        for scenario in scenarios() {
            let comparison = compare(&mut searcher, &scenario, scope).unwrap();
            let kind = match comparison.difference {
                Difference::Same => "same",
                Difference::Cheaper => "cheaper",
                Difference::PublishedUnsound(_) => "unsound",
            };
            *counts.entry(kind).or_default() += 1;
        }
        let what = match scope {
            Scope::Pure => "the operation, as published",
            Scope::Mixed => "the operation carries `a`, anything `b`",
        };
        let programs = searcher.programs();
        writeln!(
            text,
            "| {what} | {} | {} | {} | {programs} |",
            counts["same"], counts["cheaper"], counts["unsound"]
        )
        .unwrap();
    }
    text
}

fn differences() -> String {
    let mut table =
        "| on | operation | update | published | cheaper | round trips |\n| --- | --- | --- | --- | --- | --- |\n".to_owned();
    for scope in [Scope::Pure, Scope::Mixed] {
        let mut searcher = Searcher::default();
        for scenario in scenarios() {
            let comparison = compare(&mut searcher, &scenario, scope).unwrap();
            let (published, found) = (&comparison.published, &comparison.found);
            let (on, operation, update) = (
                on(&scenario.platform),
                scenario.operation,
                scenario.update.word(),
            );
            let trips = format!(
                "{} → {}",
                published.cost().round_trips,
                found.cost().round_trips
            );
            match comparison.difference {
                Difference::Same => {}
                Difference::Cheaper => {
                    writeln!(
                        table,
                        "| {on} | {operation} | {update} | {} | {} | {trips} |",
                        code(published),
                        code(found)
                    )
                    .unwrap();
                }
                Difference::PublishedUnsound(run) => {
                    let run = run.lines().join("; ");
                    writeln!(
                        table,
                        "| {on} | {operation} | {update} | {}: unsound: {run} | {} | {trips} |",
                        code(published),
                        code(found)
                    )
                    .unwrap();
                }
            }
        }
    }
    table
}

fn rules() -> String {
    let mut table =
        "| rule | hardware | says | source | known answer | why |\n| --- | --- | --- | --- | --- | --- |\n".to_owned();
    for witness in witnesses() {
        let kind = if witness.rule.is_freedom() {
            "may"
        } else {
            "promises"
        };
        let verdict = match check(&witness.platform, &witness.program, witness.update) {
            Verdict::Sound { .. } => "sound",
            Verdict::Broken(_) | Verdict::Stuck(_) => "unsound",
        };
        let (name, says, source, why) = (
            witness.rule.name(),
            witness.rule.sentence(),
            witness.rule.source(),
            witness.why,
        );
        let answer = format!(
            "{verdict} on {}: {}",
            described(&witness.platform),
            code(&witness.program)
        );
        writeln!(
            table,
            "| {name} | {kind} | {says} | {source} | {answer} | {why} |"
        )
        .unwrap();
    }
    table
}

/// A platform, described by its differences from the taxonomy's.
fn described(platform: &Platform) -> String {
    let usual = Platform::of(platform.declared());
    let mut text = on(platform);
    for axis in Axis::ALL {
        // The lack of ATOMIC_WRITE needs no mention where it is not used.
        if *axis != Axis::AtomicWrite && platform.word(*axis) != usual.word(*axis) {
            write!(text, ", {axis} = {}", platform.word(*axis)).unwrap();
        }
    }
    text
}

/// The taxonomy counts ten methods for single updates and nine more for compound ones. Of our twelve, three are methods
/// for single updates whose message holds both values (copied without write-back, flushed, or completed); the other
/// nine are new.
#[test]
fn the_number_of_methods_is_that_of_the_taxonomy() {
    let methods = Methods::collect();
    let count = |letter| {
        methods
            .plans
            .iter()
            .filter(|(name, _)| name.starts_with(letter))
            .count()
    };
    assert_eq!((count('S'), count('C')), (10, 12));
    let single_with_both = |(_, plan): &&(String, Plan)| {
        let steps = plan
            .program()
            .to_string()
            .replace("a,b", "a")
            .replace(" rsp.copy(b)", "");
        methods
            .plans
            .iter()
            .any(|(name, single)| name.starts_with('S') && single.program().to_string() == steps)
    };
    let new = methods
        .plans
        .iter()
        .filter(|method| method.0.starts_with('C') && !single_with_both(method))
        .count();
    assert_eq!(new, 9);
}
