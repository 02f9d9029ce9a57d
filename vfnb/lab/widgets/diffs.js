// `vf.diff(a, b).view()`: two columns, row by row.

const MOST = 400, SIGN = { same: "=", changed: "≠", left: "−", right: "+" };

// Rows to draw: `[row]`, or `[from, to]` for a run of rows that are the same and left out.
function drawnRows(rows, folded, opened) {
  const found = [];
  for (let at = 0; at < rows.length;) {
    let end = at;
    while (folded && end < rows.length && rows[end][0] === "same") end++;
    if (end - at > 2 && !opened.has(at)) { found.push([at, end]); at = end; }
    else for (end = Math.max(end, at + 1); at < end; at++) found.push([at]);
  }
  return found;
}

function diffPanel(model, root) {
  const on = listeners(model), opened = new Set(), cells = new Map();
  let limit = MOST;
  const get = details(model, on, () => { for (const [row, cell] of cells) fill(row, cell); });
  const head = h("div", { class: "vfnb-bar vfnb-title" }), notes = h("div", {});
  const fold = button("only differences", "leave out what is the same (f)", () => put(model, { folded: !model.get("folded") }));
  const bar = h("div", { class: "vfnb-bar", role: "toolbar", "aria-label": "differences" }, button("‹", "previous difference (p)", () => next(-1)), button("›", "next difference (n)", () => next(1)), fold);
  const names = h("div", { class: "vfnb-pair vfnb-names" }), list = h("div", { class: "vfnb-list", role: "list", tabindex: 0, "aria-label": "rows side by side" });
  const main = h("div", {  }, head, notes, bar, names, list);
  root.append(main);
  const watch = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      const row = Number(entry.target.dataset.row);
      if (entry.isIntersecting) { cells.set(row, entry.target); fill(row, entry.target); } else cells.delete(row);
    }
  }, { root: list, rootMargin: "200px" });
  on.add(() => watch.disconnect());

  function side(spans, kind) { return h("div", { class: "vfnb-words" }, spanNodes(spans.filter((span) => span[0] === "same" || span[0] === kind))); }
  function fill(row, cell) {
    const found = get(String(row)), [, , left, right] = model.get("diff").rows[row];
    if (!found || cell.dataset.filled) return;
    cell.dataset.filled = "yes";
    const pair = cell.querySelector(".vfnb-pair");
    if (found.error) { pair.replaceChildren(h("div", { class: "vfnb-alarm" }, found.error)); return; }
    const of = (which, text) => text === null ? h("div", { class: "vfnb-none", "aria-label": "nothing on this side" }) : h("div", {}, side(found.spans, which),
      found.calls.map(([how, a, b, names]) => { const call = which === "left" ? a : b; return call === null ? null : h("div", { class: "vfnb-mono" + (how === "same" ? "" : " vfnb-asks-" + which) }, "→ " + call + (how === "changed" && names ? "  (differs: " + names + ")" : "")); }));
    pair.replaceChildren(of("left", left), of("right", right));
  }
  function item([from, to]) {
    if (to !== undefined) return h("div", { class: "vfnb-gap", role: "listitem" }, button("… " + number(to - from) + " the same", "show the " + (to - from) + " rows that are the same", () => { opened.add(from); draw(); }));
    const [kind, name, left, right, a, b] = model.get("diff").rows[from];
    const places = [a === null ? "" : "node " + a, b === null ? "" : "node " + b].filter(Boolean).join(" | ");
    const text = (value) => value === null ? h("div", { class: "vfnb-none" }) : h("div", {}, h("div", { class: "vfnb-words" }, value));
    const made = h("div", { class: "vfnb-line vfnb-is-" + kind, role: "listitem", "data-row": from, "aria-current": model.get("selected") === from ? "true" : false, on: { click: () => { put(model, { selected: from }); focusSoon(list); } } },
      h("div", { class: "vfnb-head" }, h("b", {}, SIGN[kind] + " " + name), h("span", { class: "vfnb-dim" }, [kind === "same" || kind === "changed" ? kind : "only " + kind, places].filter(Boolean).join(" · "))), h("div", { class: "vfnb-pair" }, text(left), text(right)));
    watch.observe(made);
    return made;
  }
  function draw() {
    const diff = model.get("diff"), all = drawnRows(diff.rows, model.get("folded"), opened), counts = diff.counts;
    watch.disconnect(); cells.clear();
    head.replaceChildren(h("b", {}, "Two " + diff.kind), h("span", {}, number(counts.same) + " the same · "), h("span", {}, "≠ " + number(counts.changed) + " changed"), h("span", { class: "vfnb-tone-bad" }, "− " + number(counts.left) + " left"), h("span", { class: "vfnb-tone-good" }, "+ " + number(counts.right) + " right"));
    notes.replaceChildren(...diff.notes.map((line) => h("div", { class: "vfnb-bar vfnb-dim" }, line)));
    names.replaceChildren(h("b", {}, diff.left), h("b", {}, diff.right));
    fold.setAttribute("aria-pressed", String(model.get("folded")));
    const more = all.length > limit ? [button("… " + number(all.length - limit) + " more rows", "show more rows", () => { limit += MOST; draw(); })] : [];
    list.replaceChildren(...all.slice(0, limit).map(item), ...more);
    main.dataset.rows = diff.rows.length;
  }
  function select() {
    for (const made of list.querySelectorAll("[aria-current]")) made.removeAttribute("aria-current");
    const made = list.querySelector('[data-row="' + Number(model.get("selected")) + '"]');
    if (!made) return;
    made.setAttribute("aria-current", "true");
    const edge = list.getBoundingClientRect(), own = made.getBoundingClientRect();
    if (own.top < edge.top || own.bottom > edge.bottom) list.scrollTop += own.top - edge.top - 10;
  }
  function next(way) {
    const rows = model.get("diff").rows;
    let at = model.get("selected") + way;
    if (model.get("selected") < 0 && way < 0) at = rows.length - 1;
    while (at >= 0 && at < rows.length && rows[at][0] === "same") at += way;
    if (at >= 0 && at < rows.length) put(model, { selected: at });
  }
  const keys = { n: () => next(1), p: () => next(-1), ArrowDown: () => next(1), ArrowUp: () => next(-1), f: () => fold.click() };
  on.dom(main, "keydown", (event) => {
    if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    keys[event.key]();
    event.preventDefault(); event.stopPropagation();
  });
  on.model("diff folded", draw);
  on.model("selected", select);
  draw(); select();
  return { stop() { on.stop(); main.remove(); } };
}

export default {
  render({ model, el }) {
    const on = listeners(model), root = h("div", { class: "vfnb-view vfnb-diff-view" });
    el.append(root);
    const made = diffPanel(model, root);
    watchTheme(root, on, () => {});
    return () => { made.stop(); on.stop(); root.remove(); };
  },
};
