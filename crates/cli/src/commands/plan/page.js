"use strict";
// Draws the runs that the page holds. A frame is an event and the state after it; the last frame of a run that breaks the
// promise is followed by the power cut itself.
(() => {
  const plans = JSON.parse(document.getElementById("data").textContent);
  const at = id => document.getElementById(id);
  const COLUMNS = [
    ["nowhere", "requester", "registered memory"], ["network", "network", "send queue, wire"], ["nic", "NIC", "buffers"],
    ["io-controller", "I/O controller", "IIO, visible"], ["cache", "L3 cache", "visible"], ["controller", "memory controller", "and DIMM"],
  ];
  const WIDTH = 1060, BOX = 160, GAP = 16, LEFT = 10, TOP = 40, ROW = 44;
  const column = place => COLUMNS.findIndex(([name]) => name === place);
  const left = index => LEFT + index * (BOX + GAP);
  let plan = plans[0], run = plan.runs[0], moment = 0, timer = null;

  const make = (name, attributes, parent, text) => {
    const node = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (text !== undefined) node.textContent = text;
    parent.append(node);
    return node;
  };
  const add = (name, parent, text, className) => {
    const node = document.createElement(name);
    if (text !== undefined) node.textContent = text;
    if (className) node.className = className;
    parent.append(node);
    return node;
  };

  const length = () => run.frames.length + (run.power_cut ? 1 : 0);
  const isCut = () => run.power_cut && moment === run.frames.length;
  const frame = () => run.frames[Math.min(moment, run.frames.length - 1)];

  // The fixed part: machines, places, and one chip for each piece of data.
  function drawStage() {
    const svg = at("picture");
    svg.replaceChildren();
    const rows = run.frames[0].pieces.length;
    const usesDram = run.frames.some(f => f.pieces.some(p => p.place === "dram"));
    const height = Math.max(rows, 1) * ROW + 22, bottom = TOP + height;
    const total = bottom + (usesDram ? height + 34 : 0) + 34;
    svg.setAttribute("viewBox", `0 0 ${WIDTH} ${total}`);
    make("rect", { x: left(2) - 9, y: 4, width: WIDTH - left(2) + 2, height: total - 8, rx: 10, class: "machine" }, svg);
    make("text", { x: left(5) + BOX - 4, y: total - 12, "text-anchor": "end", class: "soft" }, svg, "the responder's machine");
    COLUMNS.forEach(([name, title, detail], index) => {
      const survives = plan.persistent.includes(name);
      make("rect", { x: left(index), y: TOP, width: BOX, height, rx: 7, class: survives ? "box survives" : "box" }, svg);
      make("text", { x: left(index) + 2, y: 19 }, svg, title);
      make("text", { x: left(index) + 2, y: 34, class: "soft" }, svg, detail);
    });
    const dramTop = bottom + 30;
    if (usesDram) {
      make("rect", { x: left(4), y: dramTop, width: 2 * BOX + GAP, height, rx: 7, class: "box" }, svg);
      make("text", { x: left(4) + 2, y: dramTop - 6, class: "soft" }, svg, "receive buffers in DRAM");
    }
    svg.pieces = run.frames[0].pieces.map((piece, row) => {
      const group = make("g", { class: "piece" }, svg);
      const wide = Math.max(40, 11 * piece.name.length + 18);
      make("rect", { x: -wide / 2, y: -15, width: wide, height: 30, rx: 8 }, group);
      make("text", { x: 0, y: 1 }, group, piece.name);
      group.place = place => {
        const y = 11 + ROW / 2 + row * ROW;
        if (place === "dram") return [left(4) + BOX + GAP / 2, dramTop + y];
        return [left(column(place === "lost" ? "nic" : place)) + BOX / 2, TOP + y];
      };
      return group;
    });
  }

  function drawMoment() {
    const now = frame(), cut = isCut();
    now.pieces.forEach((piece, row) => {
      const group = at("picture").pieces[row];
      const [x, y] = group.place(piece.place);
      const kind = piece.name.startsWith("message") ? "message" : piece.name;
      const gone = piece.place === "lost" || (cut && !run.power_cut.kept.includes(piece.name) && piece.survival !== "kept");
      const survival = cut ? (gone ? "lost" : "kept") : piece.survival;
      const absent = piece.place === "nowhere" ? " absent" : "";
      group.setAttribute("class", `piece ${kind} ${survival}${gone ? " gone" : ""}${absent}`);
      group.style.transform = `translate(${x}px, ${y}px)`;
    });
    at("moment").max = length() - 1;
    at("moment").value = moment;
    at("count").textContent = `${moment} of ${length() - 1}`;
    const start = run.without === null ? "Nothing has happened yet." : "Nothing has happened yet. This run leaves one step out.";
    at("event").textContent = cut ? "The power fails." : moment === 0 ? start : now.event;
    drawCrash(now, cut);
    drawSteps(now, cut);
  }

  function drawCrash(now, cut) {
    const crash = at("crash");
    crash.replaceChildren();
    if (cut) {
      const kept = run.power_cut.kept.length ? run.power_cut.kept.join(", ") : "nothing";
      add("span", crash, `What survives: ${kept}.`);
      add("div", crash, `The promise is broken: ${run.power_cut.broken}.`, "verdict bad");
      return;
    }
    add("span", crash, "If the power failed now:");
    const words = { kept: "is kept", either: "may be there or not", lost: "is lost" };
    now.survivals.forEach((survival, index) => add("span", crash, `${"ab"[index]} ${words[survival]}`, `chip ${survival}`));
    const allKept = now.survivals.every(survival => survival === "kept");
    // Only b that can survive without a is out of order; both in doubt says that it can.
    const apart = now.survivals.length === 2 && now.survivals[1] !== "lost" && now.survivals[0] !== "kept";
    let verdict = ["The requester has concluded, and everything is there.", "verdict good"];
    if (!now.concluded) verdict = ["The requester still waits: nothing has been promised of what is under way.", "verdict"];
    if (now.concluded && !allKept) verdict = ["The requester has concluded, and the update may be lost.", "verdict bad"];
    else if (apart && run.without !== null) verdict = ["b may survive without a.", "verdict bad"];
    add("div", crash, ...verdict);
  }

  function drawSteps(now, cut) {
    const done = new Map();
    for (const f of run.frames.slice(1, moment + 1)) done.set(f.event, (done.get(f.event) || 0) + 1);
    const seen = new Map();
    const body = at("steps").tBodies[0];
    [...body.rows].forEach((row, index) => {
      const name = plan.steps[index].name;
      row.classList.toggle("left-out", run.without === index);
      if (run.without === index) { row.classList.remove("now"); return; }
      seen.set(name, (seen.get(name) || 0) + 1);
      row.classList.toggle("now", !cut && moment > 0 && now.event === name && done.get(name) === seen.get(name));
    });
  }

  function drawPlan() {
    at("title").textContent = plan.title;
    document.title = `Persistence plan: ${plan.title}`;
    at("facts").textContent = `${plan.cost}. ${plan.proof}.`;
    at("run").replaceChildren(...plan.runs.map((r, index) => new Option(r.title, index)));
    const body = at("steps").tBodies[0];
    body.replaceChildren();
    plan.steps.forEach((step, index) => {
      const row = body.insertRow();
      row.insertCell().textContent = index + 1;
      for (const party of ["rq.", "rsp."]) {
        const cell = row.insertCell();
        cell.className = "step";
        if (step.name.startsWith(party)) cell.textContent = step.name;
      }
      row.insertCell().textContent = step.why;
      const cell = row.insertCell(), without = plan.runs.findIndex(r => r.without === index);
      if (without > 0) add("button", cell, "without it").onclick = () => choose(without);
    });
    at("assumptions").replaceChildren();
    for (const { claim, run: lines } of plan.assumptions) {
      const details = add("details", add("li", at("assumptions")));
      add("summary", details, claim);
      const list = add("ol", details);
      lines.forEach(text => add("li", list, text));
    }
    if (!plan.assumptions.length) add("li", at("assumptions"), "Nothing: the plan is sound whatever the platform is.");
    choose(0);
  }

  function choose(index) {
    stop();
    run = plan.runs[index];
    at("run").value = index;
    moment = 0;
    drawStage();
    drawMoment();
  }
  function move(to) {
    moment = Math.max(0, Math.min(length() - 1, to));
    drawMoment();
  }
  function stop() {
    clearInterval(timer);
    timer = null;
    at("play").textContent = "Play";
  }
  function play() {
    if (timer) return stop();
    if (moment === length() - 1) move(0);
    at("play").textContent = "Pause";
    timer = setInterval(() => { move(moment + 1); if (moment === length() - 1) stop(); }, 900);
  }

  at("plan").replaceChildren(...plans.map((p, index) => new Option(p.title, index)));
  at("plans").hidden = plans.length === 1;
  at("plan").onchange = event => { plan = plans[event.target.value]; drawPlan(); };
  at("run").onchange = event => choose(Number(event.target.value));
  at("moment").oninput = event => { stop(); move(Number(event.target.value)); };
  at("back").onclick = () => { stop(); move(moment - 1); };
  at("forth").onclick = () => { stop(); move(moment + 1); };
  at("play").onclick = play;
  document.addEventListener("keydown", event => {
    if (["INPUT", "SELECT"].includes(event.target.tagName)) return;
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (by) { stop(); move(moment + by); event.preventDefault(); }
  });
  drawPlan();
  // A moment can be named in the address: page.html#2,5 shows the third run at its sixth frame.
  const [wantedRun, wantedMoment] = location.hash.slice(1).split(",").map(Number);
  if (plan.runs[wantedRun]) { choose(wantedRun); move(wantedMoment || 0); }
})();
