//! Tables 2 and 3 of the taxonomy (Kashyap et al., "Correct, Fast Remote Persistence"), cell by cell.
//!
//! Two kinds of cells are read as the text explains them, not literally. Where a table has `copy + flush(a,b)`, section
//! 3.3 states that `a` is written back before `b` is copied. Where a cell of a message exchange names the wrong party
//! or omits a step, the neighbouring cells and the text have the right one.

use stonecast_media::{Ddio, PersistenceDomain, ReceiveBuffers};

use crate::program::Program;
use crate::scenario::{Operation, Scenario, scenarios};

/// The program that the tables print for a scenario; `None` if it is not one of the 72.
pub fn tabulated(scenario: &Scenario) -> Option<Program> {
    if !scenarios().contains(scenario) {
        return None;
    }
    Some(
        cell(scenario)
            .parse()
            .expect("the tables are made of steps"),
    )
}

fn cell(scenario: &Scenario) -> &'static str {
    use Ddio::{Off, On};
    use Operation::{Send, Write, WriteImmediate};
    use PersistenceDomain::{Dmp, Mhp, Wsp};
    use ReceiveBuffers::{Dram, Pm};
    let platform = &scenario.platform;
    let cell = (
        platform.persistence,
        platform.ddio,
        platform.receive_buffers,
        scenario.operation,
    );
    if scenario.update.is_compound() {
        match cell {
            (Dmp, On, _, Write) => {
                "rq.write(a) rq.send(&a) rsp.receive(&a) rsp.write_back(a) rsp.send(ack) rq.receive(ack) \
                 rq.write(b) rq.send(&b) rsp.receive(&b) rsp.write_back(b) rsp.send(ack) rq.receive(ack)"
            }
            (Dmp, On, _, WriteImmediate) => {
                "rq.write_imm(a) rsp.receive(&a) rsp.write_back(a) rsp.send(ack) rq.receive(ack) \
                 rq.write_imm(b) rsp.receive(&b) rsp.write_back(b) rsp.send(ack) rq.receive(ack)"
            }
            (Dmp, On, _, Send) | (Dmp, Off, Dram, Send) => {
                "rq.send(a,b) rsp.receive(a,b) rsp.copy(a) rsp.write_back(a) rsp.copy(b) rsp.write_back(b) rsp.send(ack) rq.receive(ack)"
            }
            (Dmp, Off, _, Write) => {
                "rq.write(a) rq.flush rq.write_atomic(b) rq.flush rq.await(flush)"
            }
            (Dmp, Off, _, WriteImmediate) => {
                "rq.write_imm(a) rq.flush rq.await(flush) rq.write_imm(b) rq.flush rq.await(flush)"
            }
            (Dmp, Off, Pm, Send) | (Mhp, _, Pm, Send) => "rq.send(a,b) rq.flush rq.await(flush)",
            (Mhp, _, _, Write) => "rq.write(a) rq.write(b) rq.flush rq.await(flush)",
            (Mhp, _, _, WriteImmediate) => {
                "rq.write_imm(a) rq.write_imm(b) rq.flush rq.await(flush)"
            }
            (Mhp | Wsp, _, Dram, Send) => {
                "rq.send(a,b) rsp.receive(a,b) rsp.copy(a) rsp.copy(b) rsp.send(ack) rq.receive(ack)"
            }
            (Wsp, _, _, Write) => "rq.write(a) rq.write(b) rq.await(write(b))",
            (Wsp, _, _, WriteImmediate) => "rq.write_imm(a) rq.write_imm(b) rq.await(write_imm(b))",
            (Wsp, _, Pm, Send) => "rq.send(a,b) rq.await(send(a,b))",
            _ => unreachable!("the tables have no such row"),
        }
    } else {
        match cell {
            (Dmp, On, _, Write) => {
                "rq.write(a) rq.send(&a) rsp.receive(&a) rsp.write_back(a) rsp.send(ack) rq.receive(ack)"
            }
            (Dmp, On, _, WriteImmediate) => {
                "rq.write_imm(a) rsp.receive(&a) rsp.write_back(a) rsp.send(ack) rq.receive(ack)"
            }
            (Dmp, On, _, Send) | (Dmp, Off, Dram, Send) => {
                "rq.send(a) rsp.receive(a) rsp.copy(a) rsp.write_back(a) rsp.send(ack) rq.receive(ack)"
            }
            (Dmp, Off, _, Write) | (Mhp, _, _, Write) => "rq.write(a) rq.flush rq.await(flush)",
            (Dmp, Off, _, WriteImmediate) | (Mhp, _, _, WriteImmediate) => {
                "rq.write_imm(a) rq.flush rq.await(flush)"
            }
            (Dmp, Off, Pm, Send) | (Mhp, _, Pm, Send) => "rq.send(a) rq.flush rq.await(flush)",
            (Mhp | Wsp, _, Dram, Send) => {
                "rq.send(a) rsp.receive(a) rsp.copy(a) rsp.send(ack) rq.receive(ack)"
            }
            (Wsp, _, _, Write) => "rq.write(a) rq.await(write(a))",
            (Wsp, _, _, WriteImmediate) => "rq.write_imm(a) rq.await(write_imm(a))",
            (Wsp, _, Pm, Send) => "rq.send(a) rq.await(send(a))",
            _ => unreachable!("the tables have no such row"),
        }
    }
}
