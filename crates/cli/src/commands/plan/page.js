"use strict";
// Draws the runs that the page holds. A frame is an event and the state after it; the last frame of a run that breaks the
// promise is followed by the power cut itself.
(() => {
  const plans = JSON.parse(document.getElementById("data").textContent);
  const at = id => document.getElementById(id);
  const PLACES = [
    ["nowhere", "requester", "registered memory"], ["network", "network", "send queue, wire"], ["nic", "NIC", "buffers"],
    ["io-controller", "I/O controller", "visible"], ["cache", "L3 cache", "visible"], ["controller", "memory controller", "and DIMM"],
  ];
  // Below this width the places stand under each other.
  const NARROW = 640;
  const indexOf = place => PLACES.findIndex(([name]) => name === (place === "lost" ? "nic" : place));
  let plan = plans[0], run = plan.runs[0], moment = 0, timer = null, narrow = null;

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

  // Places beside each other, and what is in them below each other.
  function inColumns(count, usesDram) {
    const BOX = 160, GAP = 16, LEFT = 10, TOP = 40, ROW = 40;
    const left = index => LEFT + index * (BOX + GAP);
    const height = count * ROW + 22, dramTop = TOP + height + 30;
    const total = TOP + height + (usesDram ? height + 34 : 0) + 34;
    const y = row => 11 + ROW / 2 + row * ROW;
    return {
      width: 1076, height: total,
      box: index => ({ x: left(index), y: TOP, width: BOX, height }),
      title: index => ({ x: left(index) + 2, y: 19 }), detail: index => ({ x: left(index) + 2, y: 34 }),
      machine: { x: left(2) - 9, y: 4, width: 4 * BOX + 3 * GAP + 18, height: total - 8 },
      owner: { x: left(5) + BOX - 4, y: total - 12 },
      dram: { x: left(4), y: dramTop, width: 2 * BOX + GAP, height }, dramTitle: { x: left(4) + 2, y: dramTop - 6 },
      spot: (place, row) => place === "dram" ? [left(4) + BOX + GAP / 2, dramTop + y(row)] : [left(indexOf(place)) + BOX / 2, TOP + y(row)],
    };
  }
  // Places below each other, and what is in them beside each other.
  function inRows(count, usesDram) {
    const WIDTH = 440, LEFT = 10, TITLE = 20, BOX = 42, PITCH = TITLE + BOX + 8;
    const top = index => 4 + index * PITCH + (index > 1 ? 10 : 0);
    const inner = WIDTH - 2 * LEFT, places = PLACES.length + (usesDram ? 1 : 0);
    const x = row => LEFT + inner * (row + .5) / count;
    return {
      width: WIDTH, height: top(places) + 26,
      box: index => ({ x: LEFT, y: top(index) + TITLE, width: inner, height: BOX }),
      title: index => ({ x: LEFT + 2, y: top(index) + 14 }), detail: index => ({ x: LEFT + 150, y: top(index) + 14 }),
      machine: { x: 2, y: top(2) - 6, width: WIDTH - 4, height: top(places) - top(2) + 26 },
      owner: { x: WIDTH - LEFT - 2, y: top(places) + 12 },
      dram: { x: LEFT, y: top(PLACES.length) + TITLE, width: inner, height: BOX }, dramTitle: { x: LEFT + 2, y: top(PLACES.length) + 14 },
      spot: (place, row) => [x(row), top(place === "dram" ? PLACES.length : indexOf(place)) + TITLE + BOX / 2],
    };
  }

  // The fixed part: machines, places, and a chip for each piece of data, each request and each answer.
  function drawStage() {
    const svg = at("picture"), first = run.frames[0];
    svg.replaceChildren();
    narrow = svg.parentElement.clientWidth < NARROW;
    const usesDram = run.frames.some(f => [...f.pieces, ...f.signals].some(p => p.place === "dram"));
    const layout = (narrow ? inRows : inColumns)(first.pieces.length + first.signals.length, usesDram);
    svg.setAttribute("viewBox", `0 0 ${layout.width} ${layout.height}`);
    make("rect", { ...layout.machine, rx: 10, class: "machine" }, svg);
    make("text", { ...layout.owner, "text-anchor": "end", class: "soft" }, svg, "the responder's machine");
    PLACES.forEach(([name, title, detail], index) => {
      const survives = plan.persistent.includes(name);
      make("rect", { ...layout.box(index), rx: 7, class: survives ? "box survives" : "box" }, svg);
      make("text", layout.title(index), svg, title);
      make("text", { ...layout.detail(index), class: "soft" }, svg, detail);
    });
    if (usesDram) {
      make("rect", { ...layout.dram, rx: 7, class: "box" }, svg);
      make("text", { ...layout.dramTitle, class: "soft" }, svg, "receive buffers in DRAM");
    }
    const chip = (name, row, high) => {
      const group = make("g", { class: "piece" }, svg);
      // A signal that has ended has a mark behind its name.
      const wide = Math.max(40, (narrow ? 7.6 : 9) * name.length + (high < 30 ? 30 : 16));
      make("rect", { x: -wide / 2, y: -high / 2, width: wide, height: high, rx: high / 2 - 6 }, group);
      group.label = make("text", { x: 0, y: 1 }, group, name);
      group.place = place => {
        const [x, y] = layout.spot(place, row);
        group.style.transform = `translate(${x}px, ${y}px)`;
      };
      return group;
    };
    svg.pieces = first.pieces.map((piece, row) => chip(piece.name, row, 30));
    svg.signals = first.signals.map((signal, index) => chip(signal.name, first.pieces.length + index, 24));
  }

  function drawMoment() {
    const now = frame(), cut = isCut();
    now.pieces.forEach((piece, row) => {
      const group = at("picture").pieces[row];
      const kind = piece.name.startsWith("message") ? "message" : piece.name;
      const gone = piece.place === "lost" || (cut && !run.power_cut.kept.includes(piece.name) && piece.survival !== "kept");
      const survival = cut ? (gone ? "lost" : "kept") : piece.survival;
      const absent = piece.place === "nowhere" ? " absent" : "";
      group.setAttribute("class", `piece ${kind} ${survival}${gone ? " gone" : ""}${absent}`);
      group.place(piece.place);
    });
    now.signals.forEach((signal, index) => {
      const group = at("picture").signals[index];
      group.setAttribute("class", `piece signal${signal.place ? "" : " unsent"}${cut && !signal.ended ? " gone" : ""}`);
      group.label.textContent = signal.ended ? `${signal.name} \u2713` : signal.name;
      group.place(signal.place || (signal.name === "ack" ? "cache" : "nowhere"));
    });
    at("moment").max = length() - 1;
    at("moment").value = moment;
    at("count").textContent = `${moment} of ${length() - 1}`;
    const start = run.without === null ? "Nothing has happened yet." : "Nothing has happened yet. This run leaves one step out.";
    at("event").textContent = cut ? "The power fails." : moment === 0 ? start : now.event;
    drawCrash(now, cut);
    drawSteps();
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

  // The step that was done last, and all before it. At a power cut that is the last one that was done at all.
  function drawSteps() {
    const reached = Math.min(moment, run.frames.length - 1), latest = run.latest_steps[reached];
    const done = new Set(run.latest_steps.slice(0, reached + 1));
    [...at("steps").tBodies[0].rows].forEach((row, index) => {
      row.classList.toggle("left-out", run.without === index);
      row.classList.toggle("done", done.has(index));
      row.classList.toggle("now", index === latest);
      if (index === latest) row.setAttribute("aria-current", "step");
      else row.removeAttribute("aria-current");
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
      const number = row.insertCell();
      number.className = "number";
      number.textContent = index + 1;
      for (const party of ["rq.", "rsp."]) {
        const cell = row.insertCell();
        cell.className = "step";
        if (step.name.startsWith(party)) cell.textContent = step.name;
      }
      const why = row.insertCell();
      why.className = "why";
      why.textContent = step.why;
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
    moment = run.opens_at;
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
  addEventListener("resize", () => {
    if ((at("picture").parentElement.clientWidth < NARROW) !== narrow) { drawStage(); drawMoment(); }
  });
  drawPlan();
  // A moment can be named in the address: page.html#2,5 shows the third run at its sixth frame.
  const [wantedRun, wantedMoment] = location.hash.slice(1).split(",").map(Number);
  if (plan.runs[wantedRun]) {
    choose(wantedRun);
    if (wantedMoment >= 0) move(wantedMoment);
  }
})();
