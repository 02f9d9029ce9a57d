// `run.view()`: the rollouts of a run, and one trace below.

function cellText(value) {
  if (value === null || value === undefined) return "-";
  if (typeof value !== "number") return String(value);
  return Number.isInteger(value) ? value.toLocaleString("en-US") : String(Number(value.toPrecision(4)));
}

const STATES = { completed: ["✓", "good"], stopped: ["✓", "good"], error: ["✗", "bad"], cancelled: ["!", "warn"], dropped: ["!", "warn"], running: ["·", "dim"] };

function stateCell(state) {
  const [sign, tone] = STATES[state] || ["·", "dim"];
  return h("span", { class: tone === "dim" ? "vfnb-dim" : "vfnb-tone-" + tone }, sign + " " + state);
}

function runTable(model, root) {
  const on = listeners(model);
  const head = h("div", { class: "vfnb-bar vfnb-title" }), alarms = h("div", {});
  const filter = h("input", { type: "search", class: "vfnb-filter", placeholder: "filter: a text, or reward < 0.5 AND turns > 3", "aria-label": "filter the rollouts" });
  const count = h("span", { class: "vfnb-dim", role: "status" }), problem = h("div", {});
  const before = button("‹", "earlier rows", () => move(-1)), after = button("›", "later rows", () => move(1));
  const bar = h("div", { class: "vfnb-bar", role: "toolbar", "aria-label": "filter and pages" }, filter, count, h("span", { class: "vfnb-push" }), before, after);
  const top = h("tr", {}), body = h("tbody", {});
  const table = h("div", { class: "vfnb-rows", tabindex: -1 }, h("table", { "aria-label": "rollouts" }, h("thead", {}, top), body));
  const close = button("close trace", "close the trace below", () => put(model, { opened: "" }));
  const below = h("div", { class: "vfnb-below" }, h("div", { class: "vfnb-bar" }, h("span", { class: "vfnb-push" }), close));
  const main = h("div", {  }, head, alarms, bar, problem, table);
  root.append(main, below);
  const panel = tracePanel(model, below);

  function move(way) { put(model, { offset: Math.max(0, model.get("page").begin + way * 100) }); }
  function sortBy(name) {
    if (model.get("sort") !== name) put(model, { sort: name, descending: false, offset: 0 });
    else if (!model.get("descending")) put(model, { descending: true, offset: 0 });
    else put(model, { sort: "", descending: false, offset: 0 });
  }
  function drawHead() {
    const state = model.get("head");
    const tone = { running: "dim", finished: "good", cancelled: "warn", failed: "bad" }[state.state];
    head.replaceChildren(h("b", {}, "Run " + state.title), h("span", { class: tone === "dim" ? "vfnb-dim" : "vfnb-tone-" + tone }, state.state),
      h("progress", { value: state.done, max: Math.max(1, state.total), "aria-label": "finished rollouts" }), h("span", {}, state.line));
    alarms.replaceChildren(...state.errors.map((line) => h("div", { class: "vfnb-alarm" }, line)));
    main.dataset.done = state.done;
  }
  function draw() {
    const page = model.get("page"), sort = model.get("sort"), opened = model.get("opened");
    const focused = body.querySelector("tr:focus")?.dataset.trace;
    const numeric = new Set(page.numeric);
    top.replaceChildren(...page.columns.map((name) => h("th", { scope: "col", class: numeric.has(name) ? "vfnb-number" : false, "aria-sort": name === sort ? (model.get("descending") ? "descending" : "ascending") : "none" },
      button(name + (name === sort ? (model.get("descending") ? " ▾" : " ▴") : ""), "sort by " + name, () => sortBy(name)))));
    body.replaceChildren(...page.ids.map((id, row) => h("tr", { tabindex: 0, "data-trace": id, "aria-selected": String(id === opened), title: page.errors[row] || false, on: { click: () => put(model, { opened: id }) } },
      page.columns.map((name) => h("td", { class: numeric.has(name) ? "vfnb-number" : false }, name === "state" ? stateCell(page.cells.state[row]) : cellText(page.cells[name][row])),
      ))));
    if (focused) [...body.children].find((row) => row.dataset.trace === focused)?.focus({ preventScroll: true });
    const last = page.begin + page.ids.length;
    count.textContent = page.matched ? number(page.begin + 1) + "–" + number(last) + " of " + number(page.matched) + (page.matched < page.total ? " (" + number(page.total) + " in all)" : "") : "none of " + number(page.total);
    before.disabled = page.begin === 0;
    after.disabled = last >= page.matched;
    problem.replaceChildren(...(page.problem ? [h("div", { class: "vfnb-alarm" }, page.problem)] : []));
    main.dataset.matched = page.matched;
  }
  function opened() {
    below.hidden = !model.get("opened");
    for (const row of body.children) row.setAttribute("aria-selected", String(row.dataset.trace === model.get("opened")));
  }
  on.dom(main, "keydown", (event) => {
    const row = event.target.closest("tbody tr");
    if (event.key === "/" && event.target !== filter) filter.focus();
    else if (event.target === filter && event.key === "Escape") { filter.value = ""; put(model, { filter: "", offset: 0 }); }
    else if (row && event.key === "ArrowDown") row.nextElementSibling?.focus();
    else if (row && event.key === "ArrowUp") row.previousElementSibling?.focus();
    else if (row && event.key === "Enter") put(model, { opened: row.dataset.trace });
    else return;
    event.preventDefault(); event.stopPropagation();
  });
  let timer = 0;
  on.dom(filter, "input", () => { clearTimeout(timer); timer = setTimeout(() => put(model, { filter: filter.value, offset: 0 }), 250); });
  on.add(() => clearTimeout(timer));
  on.model("filter", () => { if (filter.value.trim() !== model.get("filter").trim()) filter.value = model.get("filter"); });
  on.model("head", drawHead);
  on.model("page", draw);
  on.model("opened", opened);
  filter.value = model.get("filter");
  drawHead(); draw(); opened();
  return { draw: panel.draw, stop() { panel.stop(); on.stop(); main.remove(); below.remove(); } };
}

export default {
  render({ model, el }) {
    const on = listeners(model), root = h("div", { class: "vfnb-view vfnb-run-view" });
    el.append(root);
    const made = runTable(model, root);
    watchTheme(root, on, made.draw);
    return () => { made.stop(); on.stop(); root.remove(); };
  },
};
