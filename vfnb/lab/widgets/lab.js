// `run.reward_lab()`: sliders for weights, thresholds, and what they change.

const short = (value) => value === null || value === undefined ? "-" : String(Number(Number(value).toPrecision(4)));

function svg(tag, attributes, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

function chart(result) {
  const width = 420, height = 120, n = result.before.length, most = Math.max(1, ...result.before, ...result.after), step = width / n;
  const bars = (counts, look) => counts.map((count, at) => svg("rect", { x: at * step + 1, y: height - height * count / most, width: Math.max(1, step - 2), height: height * count / most, class: look }));
  const label = (x, anchor, text) => svg("text", { x, y: height + 14, "text-anchor": anchor, class: "vfnb-axis" }, text);
  const said = "rewards: mean " + short(result.means[0]) + " before, " + short(result.means[1]) + " after";
  return svg("svg", { viewBox: "0 0 " + width + " " + (height + 18), class: "vfnb-chart", role: "img", "aria-label": said, "data-after": result.after.join(" ") },
    ...bars(result.after, "vfnb-new"), ...bars(result.before, "vfnb-old"), label(0, "start", short(result.edges[0])), label(width, "end", short(result.edges[n])));
}

function rewardLab(model, root) {
  const on = listeners(model);
  const rows = h("div", { class: "vfnb-weights" }), alarms = h("div", {}), drawn = h("div", { class: "vfnb-shift" }), flips = h("div", { class: "vfnb-flips" }), grid = h("div", { class: "vfnb-grid" });
  const line = h("code", { class: "vfnb-mono" }), stored = h("span", { class: "vfnb-dim", role: "status" });
  const store = button("store as a new version", "run the line of code", () => put(model, { asked: model.get("asked") + 1 }));
  const reset = button("reset", "back to the stored weights", () => put(model, { weights: {}, thresholds: {} }));
  const below = h("div", { class: "vfnb-below" }, h("div", { class: "vfnb-bar" }, h("span", { class: "vfnb-push" }), button("close trace", "close the trace below", () => put(model, { opened: "" }))));
  const main = h("div", {  }, h("div", { class: "vfnb-bar vfnb-title" }, h("b", {}, "Reward lab"), h("span", { class: "vfnb-push" }), reset),
    h("div", { class: "vfnb-lab-split" }, h("div", {}, rows, h("div", { class: "vfnb-code" }, line, h("div", {}, store, " ", stored))), h("div", {}, drawn, alarms)),
    h("div", { class: "vfnb-lab-split" }, flips, grid));
  root.append(main, below);
  const panel = tracePanel(model, below);
  const open = (id) => put(model, { opened: id });
  const controls = new Map();

  function set(trait, name, value) {
    const next = { ...model.get(trait) };
    if (value === null || Number.isNaN(value)) delete next[name]; else next[name] = value;
    put(model, { [trait]: next });
  }
  function build() {
    controls.clear();
    rows.replaceChildren(...Object.entries(model.get("signals")).map(([name, facts]) => {
      const most = Math.max(1, 2 * Math.abs(facts.weight));
      const slider = h("input", { type: "range", min: -most, max: most, step: most / 100, "aria-label": "weight of " + name });
      const exact = h("input", { type: "number", step: "any", "aria-label": "weight of " + name + " as a number" });
      const least = h("input", { type: "number", step: "any", placeholder: "1 from", title: short(facts.low) + " to " + short(facts.high), "aria-label": "threshold of " + name });
      slider.addEventListener("input", () => { exact.value = slider.value; set("weights", name, Number(slider.value)); });
      exact.addEventListener("change", () => set("weights", name, exact.value === "" ? null : Number(exact.value)));
      least.addEventListener("change", () => set("thresholds", name, least.value === "" ? null : Number(least.value)));
      controls.set(name, { slider, exact, least, facts });
      return h("label", { class: "vfnb-weight" }, h("span", { title: name }, name), slider, exact, least);
    }));
    follow();
  }
  function follow() {
    for (const [name, { slider, exact, least, facts }] of controls) {
      const weight = String(model.get("weights")[name] ?? facts.weight), from = model.get("thresholds")[name];
      const busy = slider.matches(":active");
      if (!busy) { slider.value = weight; exact.value = short(weight); }
      least.value = from === undefined || from === null ? "" : String(from);
      exact.parentElement.classList.toggle("vfnb-edited", Number(weight) !== facts.weight || least.value !== "");
    }
    line.textContent = model.get("code") || "run.rescore(...): move a slider";
    store.disabled = !model.get("code");
  }
  function draw() {
    const result = model.get("result");
    const counts = number(result.count) + " rewards" + (result.left_out ? ", " + number(result.left_out) + " rollouts without one" : "");
    drawn.replaceChildren(h("div", {}, counts + " · mean " + short(result.means[0]) + " → ", h("b", {}, short(result.means[1]))), chart(result), h("div", { class: "vfnb-dim" }, "outline: before, filled: after"));
    alarms.replaceChildren(...(result.problem ? [h("div", { class: "vfnb-alarm" }, result.problem)] : []), ...result.suspects.map((one) => h("div", { class: "vfnb-alarm vfnb-suspect" },
      h("b", {}, "! " + one.name), " " + one.why + " ", one.ids.map((id) => button(id.slice(0, 6), "open trace " + id, () => open(id))))));
    flips.replaceChildren(h("h4", {}, number(result.flipped) + " of " + number(result.pairs) + " pairs of a task in another order"), h("div", { class: "vfnb-rows" }, h("table", { "aria-label": "traces in another order" },
      h("thead", {}, h("tr", {}, ["task", "rollout", "before", "after", "place"].map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, result.flips.map((one) => h("tr", { tabindex: 0, "data-trace": one.id, on: { click: () => open(one.id), keydown: (event) => { if (event.key === "Enter") open(one.id); } } },
        [one.task, one.rollout, short(one.before), short(one.after), one.ranks[0] + " → " + one.ranks[1] + (one.ranks[1] < one.ranks[0] ? " ▲" : one.ranks[1] > one.ranks[0] ? " ▼" : "")].map((text) => h("td", {}, String(text)))))))),
    ...(result.flips_total > result.flips.length ? [h("div", { class: "vfnb-dim" }, result.flips.length + " of " + number(result.flips_total) + " traces")] : []));
    grid.replaceChildren(h("h4", {}, "rank correlation"), h("div", { class: "vfnb-rows" }, h("table", { "aria-label": "rank correlation of rewards and sizes" },
      h("thead", {}, h("tr", {}, h("th", {}), result.names.map((name) => h("th", { scope: "col", title: name }, name)))),
      h("tbody", {}, result.names.map((name, i) => h("tr", {}, h("th", { scope: "row", title: name }, name), result.correlations[i].map((value) => h("td", { class: "vfnb-number",
        style: value === null ? false : "background:rgba(" + (value < 0 ? "200,60,40," : "30,110,200,") + (Math.abs(value) * 0.45).toFixed(2) + ")" }, value === null ? "-" : value.toFixed(2)))))))));
    main.dataset.flipped = result.flipped;
  }
  const opened = () => { below.hidden = !model.get("opened"); };
  on.model("signals", build);
  on.model("weights thresholds code", follow);
  on.model("result", draw);
  on.model("opened", opened);
  on.model("stored", () => { stored.textContent = model.get("stored"); });
  build(); draw(); opened();
  stored.textContent = model.get("stored");
  return { draw: panel.draw, stop() { panel.stop(); on.stop(); main.remove(); below.remove(); } };
}

export default {
  render({ model, el }) {
    const on = listeners(model), root = h("div", { class: "vfnb-view vfnb-lab-view" });
    el.append(root);
    const made = rewardLab(model, root);
    watchTheme(root, on, made.draw);
    return () => { made.stop(); on.stop(); root.remove(); };
  },
};
