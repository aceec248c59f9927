//! The plans of the 72 scenarios against the published tables.

use stonecast_persist::{plan_for, scenarios, tabulated};

#[test]
fn every_published_scenario_gets_the_published_plan() {
    for scenario in scenarios() {
        let plan = plan_for(&scenario.platform, scenario.operation, scenario.update).unwrap();
        assert_eq!(
            plan.program(),
            &tabulated(&scenario).unwrap(),
            "{scenario:?}"
        );
    }
}

#[test]
fn a_plan_prints_as_one_object_with_its_selectors() {
    let scenario = scenarios()[0];
    let plan = plan_for(&scenario.platform, scenario.operation, scenario.update).unwrap();
    assert_eq!(
        serde_json::to_string(&plan).unwrap(),
        r#"{"persistence":"dmp","ddio":true,"receive_buffers":"dram","operation":"write","update":"single","steps":["rq.write(a)","rq.send(&a)","rsp.receive(&a)","rsp.write_back(a)","rsp.send(ack)","rq.receive(ack)"],"round_trips":1,"one_sided":false}"#
    );
}
