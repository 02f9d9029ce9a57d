// One trace: its graph on a canvas, what is known of the chosen message, and the conversation of one branch.

const SIGNS = ["■", "●", "◆", "▲", "✕"];
const STEP = 26, LANE = 34, PAD = 22, TOP = 30, WINDOW = 100, CLIP = 1200;

// By kind of link: said at its older node, said at its newer node.
const RELATIONS = {
  "spawned by": ["starts the subagent at", "started by"], "returned to": ["answer goes to", "answer of"],
  "compaction of": ["summary goes into", "starts from the summary of"], rewrite: ["rewritten as", "rewrite of"],
};

function pathTo(parent, node) {
  const path = [];
  for (let at = node; at >= 0; at = parent[at]) path.push(at);
  return path.reverse();
}

// The last node of the branch that a view follows: the one asked for if it passes the chosen node.
function followed(graph, selected, leaf) {
  const tips = new Map(graph.tips);
  if (leaf < 0 || leaf >= graph.parent.length) leaf = tips.get(graph.main) ?? graph.tips[0]?.[1] ?? -1;
  if (selected < 0 || selected >= graph.parent.length || pathTo(graph.parent, leaf).includes(selected)) return leaf;
  return tips.get(graph.branch[selected]) ?? selected;
}

// Where each column is drawn. Folded, runs of columns without a node of `keep` become one gap, `[from, to, place]`.
function columnPlaces(graph, keep) {
  const places = new Float64Array(graph.columns), gaps = [];
  if (!keep) return { places: places.map((_, x) => x), gaps, width: graph.columns };
  const kept = new Uint8Array(graph.columns);
  for (const node of keep) kept.fill(1, Math.max(0, graph.x[node] - 1), graph.x[node] + 2);
  let at = 0;
  for (let x = 0; x < graph.columns;) {
    let end = x;
    while (end < graph.columns && !kept[end]) end++;
    if (end - x > 3) {
      places.fill(at + 0.5, x, end);
      gaps.push([x, end, at + 0.5]);
      at += 2;
      x = end;
    } else {
      for (end = Math.max(end, x + 1); x < end; x++) places[x] = at++;
    }
  }
  return { places, gaps, width: at };
}

function mark(pen, role, x, y, r) {
  if (r < 2.4) pen.rect(x - r, y - r, 2 * r, 2 * r);
  else if (role === 0) pen.rect(x - 0.9 * r, y - 0.9 * r, 1.8 * r, 1.8 * r);
  else if (role === 1) { pen.moveTo(x + r, y); pen.arc(x, y, r, 0, 2 * Math.PI); }
  else if (role === 2) { pen.moveTo(x, y - 1.25 * r); pen.lineTo(x + 1.25 * r, y); pen.lineTo(x, y + 1.25 * r); pen.lineTo(x - 1.25 * r, y); pen.closePath(); }
  else if (role === 3) { pen.moveTo(x, y - 1.15 * r); pen.lineTo(x + 1.15 * r, y + r); pen.lineTo(x - 1.15 * r, y + r); pen.closePath(); }
  else { pen.moveTo(x - r, y - r); pen.lineTo(x + r, y + r); pen.moveTo(x + r, y - r); pen.lineTo(x - r, y + r); }
}

function graphCanvas(model, on, choose) {
  const canvas = h("canvas", { tabindex: 0, role: "application", class: "vfnb-canvas" });
  const tip = h("div", { class: "vfnb-tip", "aria-hidden": "true" });
  const box = h("div", { class: "vfnb-graph" }, canvas, tip);
  let graph = null, columns = null, counts = [], path = [], zoom = 1, whole = 1, left = 0, top = 0, fitted = false, drag = null;
  const step = () => STEP * zoom;
  // All lanes are in sight if that leaves 12 pixels for each; zooming in gives them room.
  const lane = () => Math.min(LANE, Math.max(12, (canvas.clientHeight - 2 * TOP) / Math.max(1, graph.lanes - 1)) * Math.max(1, zoom / whole));
  const px = (node) => PAD + columns.places[graph.x[node]] * step() - left;
  const py = (node) => TOP + graph.y[node] * lane() - top;
  const hidden = (node) => columns.gaps.length > 0 && columns.places[graph.x[node]] % 1 !== 0;

  function keep() {
    const found = new Set(model.get("hits").slice(0, 500));
    for (const [first, tip] of graph.tips) { found.add(first); found.add(tip); if (graph.parent[first] >= 0) found.add(graph.parent[first]); }
    for (const [source, target] of graph.links) { found.add(source); found.add(target); }
    if (model.get("selected") >= 0 && model.get("selected") < graph.x.length) found.add(model.get("selected"));
    return found;
  }
  function place() {
    columns = columnPlaces(graph, model.get("folded") ? keep() : null);
    counts = [];
    if (!columns.gaps.length) return;
    const byPlace = new Map();
    for (let node = 0; node < graph.x.length; node++) {
      if (!hidden(node)) continue;
      const key = columns.places[graph.x[node]] + ":" + graph.y[node];
      byPlace.set(key, (byPlace.get(key) || 0) + 1);
    }
    counts = [...byPlace].map(([key, n]) => [...key.split(":").map(Number), n]);
  }
  function bound() {
    const width = 2 * PAD + (columns.width - 1) * step(), height = 2 * TOP + (graph.lanes - 1) * lane();
    left = Math.max(Math.min(0, (width - canvas.clientWidth) / 2), Math.min(left, width - canvas.clientWidth));
    if (width <= canvas.clientWidth) left = 0;
    top = Math.max(0, Math.min(top, height - canvas.clientHeight));
  }
  function fit() {
    zoom = whole = Math.max(0.01, Math.min(1.5, (canvas.clientWidth - 2 * PAD) / Math.max(1, columns.width - 1) / STEP));
    left = top = 0;
    draw();
  }
  function zoomBy(factor, x = canvas.clientWidth / 2) {
    const column = (x + left - PAD) / step();
    zoom = Math.max(0.01, Math.min(12, zoom * factor));
    left = column * step() - x + PAD;
    draw();
  }
  function show(node) {
    const x = px(node), y = py(node);
    if (x < 20 || x > canvas.clientWidth - 20) left += x - canvas.clientWidth / 2;
    if (y < 20 || y > canvas.clientHeight - 20) top += y - canvas.clientHeight / 2;
    draw();
  }
  function at(x, y) {
    let best = -1, nearest = 15 * 15;
    for (let node = 0; node < graph.x.length; node++) {
      if (hidden(node)) continue;
      const d = (px(node) - x) ** 2 + (py(node) - y) ** 2;
      if (d < nearest) { nearest = d; best = node; }
    }
    return best;
  }

  function paint() {
    if (!graph || !canvas.isConnected) return;
    const width = canvas.clientWidth, height = canvas.clientHeight, ratio = window.devicePixelRatio || 1;
    if (!width) return;
    if (!fitted) { fitted = true; fit(); return; }
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    bound();
    const pen = canvas.getContext("2d"), css = getComputedStyle(canvas.closest(".vfnb-view"));
    const color = (name) => css.getPropertyValue("--vfnb-" + name).trim();
    const dim = color("dim"), accent = color("accent"), text = color("text"), paper = color("page");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    const r = Math.max(1.5, Math.min(6, step() * 0.32, lane() * 0.32));
    const inside = (x) => x > -40 && x < width + 40;

    pen.strokeStyle = dim; pen.globalAlpha = 0.6; pen.lineWidth = 1.2;
    pen.beginPath();
    for (const [first, last] of graph.tips) {
      const parent = graph.parent[first], x = px(first), y = py(first), end = px(last);
      if (end < -40 && (parent < 0 || px(parent) < -40)) continue;
      if (parent >= 0) { pen.moveTo(px(parent), py(parent)); pen.lineTo(x, y); } else pen.moveTo(x, y);
      pen.lineTo(end, y);
    }
    pen.stroke();
    pen.setLineDash([2, 4]);
    pen.beginPath();
    for (const [source, target] of graph.links) { pen.moveTo(px(source), py(source)); pen.lineTo(px(target), py(target)); }
    pen.stroke();
    pen.setLineDash([]);
    pen.globalAlpha = 1; pen.strokeStyle = accent; pen.lineWidth = 2.2;
    pen.beginPath();
    for (let at = 0; at < path.length; at++) {  // corners alone: a long lane is one line
      const row = graph.y[path[at]];
      if (at && at + 1 < path.length && graph.y[path[at - 1]] === row && graph.y[path[at + 1]] === row) continue;
      pen.lineTo(px(path[at]), py(path[at]));
    }
    pen.stroke();

    const groups = new Map(), seen = [];
    for (let node = 0; node < graph.x.length; node++) {
      const x = px(node);
      if (!inside(x) || hidden(node)) continue;
      const key = graph.role[node] * 2 + graph.sampled[node];
      if (!groups.has(key)) groups.set(key, []);
      groups.get(key).push(node);
      seen.push(node);
    }
    for (const [key, members] of groups) {
      const role = key >> 1, tone = color(graph.roles[role]);
      pen.beginPath();
      for (const node of members) mark(pen, role, px(node), py(node), r);
      pen.lineWidth = r < 2.4 ? 0.5 : 1.8; pen.strokeStyle = tone; pen.fillStyle = key % 2 ? tone : paper;
      pen.fill(); pen.stroke();
    }
    pen.strokeStyle = color("warn"); pen.lineWidth = 2;
    pen.beginPath();
    for (const node of model.get("hits")) if (!hidden(node) && inside(px(node))) { pen.moveTo(px(node) + r + 4, py(node)); pen.arc(px(node), py(node), r + 4, 0, 7); }
    pen.stroke();
    const selected = model.get("selected");
    if (selected >= 0 && selected < graph.x.length && !hidden(selected)) {
      pen.strokeStyle = accent; pen.lineWidth = 2.5;
      pen.beginPath(); pen.arc(px(selected), py(selected), r + 5, 0, 7); pen.stroke();
    }
    words(pen, seen, dim, text, paper, width, r);
    canvas.dataset.drawn = seen.length;
  }
  function words(pen, seen, dim, text, paper, width, r) {
    pen.font = "11px system-ui, sans-serif"; pen.textBaseline = "middle";
    pen.textAlign = "center";
    for (const [place, y, n] of counts) {
      const x = PAD + place * step() - left, label = "⋯" + n + "⋯";
      if (x < 0 || x > width || step() < 7) continue;
      pen.fillStyle = paper; pen.fillRect(x - 3 - pen.measureText(label).width / 2, TOP + y * lane() - top - 7, pen.measureText(label).width + 6, 14);
      pen.fillStyle = dim; pen.fillText(label, x, TOP + y * lane() - top);
    }
    if (lane() < 18) return;
    pen.textAlign = "left"; pen.fillStyle = dim;
    const ends = [];
    for (const [first] of graph.tips) {
      const fork = graph.forks[first], x = px(first) - r;
      if (!fork || hidden(first) || x < -80 || x > width) continue;
      const label = fork.cause.replace("_", " "), row = graph.y[first];
      if (x < (ends[row] ?? -1e9)) continue;
      ends[row] = x + pen.measureText(label).width + 8;
      pen.fillText(label, x, py(first) - r - 7);
    }
    if (step() < 90) return;
    pen.fillStyle = text;
    for (const node of seen) {
      const most = Math.floor((step() - 12) / 6);
      pen.fillText(graph.text[node].slice(0, most), px(node) - r, py(node) + r + 8);
    }
  }
  const draw = nextFrame(paint);

  on.dom(canvas, "pointerdown", (event) => { drag = { x: event.clientX, y: event.clientY, left, top, moved: false }; canvas.setPointerCapture(event.pointerId); });
  on.dom(canvas, "pointermove", (event) => {
    const edge = canvas.getBoundingClientRect();
    if (drag) {
      const dx = event.clientX - drag.x, dy = event.clientY - drag.y;
      drag.moved ||= Math.abs(dx) + Math.abs(dy) > 4;
      left = drag.left - dx; top = drag.top - dy;
      tip.hidden = true;
      draw();
    } else {
      const node = at(event.clientX - edge.left, event.clientY - edge.top);
      tip.hidden = node < 0;
      if (node < 0) return;
      tip.textContent = nodeLine(graph, node);
      tip.style.left = Math.max(4, Math.min(px(node) - 20, canvas.clientWidth - 260)) + "px";
      tip.style.top = py(node) + 14 + "px";
    }
  });
  on.dom(canvas, "pointerup", (event) => {
    const edge = canvas.getBoundingClientRect(), node = at(event.clientX - edge.left, event.clientY - edge.top);
    if (drag && !drag.moved && node >= 0) choose(node);
    drag = null;
    focusSoon(canvas);
  });
  on.dom(canvas, "pointercancel", () => { drag = null; });
  on.dom(canvas, "pointerleave", () => { tip.hidden = true; });
  on.dom(canvas, "wheel", (event) => {
    if (event.ctrlKey || event.metaKey) zoomBy(Math.exp(-event.deltaY / 200), event.offsetX);
    else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) { left += event.deltaX || event.deltaY; draw(); }
    else return;  // the notebook scrolls
    event.preventDefault();
  }, { passive: false });
  const sizes = new ResizeObserver(() => draw());
  sizes.observe(canvas);
  on.add(() => sizes.disconnect());
  tip.hidden = true;
  return {
    box, draw, zoomBy, show,
    fit: () => { if (graph) fit(); },
    set(next, way, fresh) {
      graph = next; path = way;
      if (fresh) fitted = false;
      canvas.style.height = Math.max(120, Math.min(250, 2 * TOP + (graph.lanes - 1) * LANE)) + "px";
      canvas.setAttribute("aria-label", "message graph, " + graph.x.length + " messages, " + graph.tips.length + " branches; arrow keys walk the branch");
      place(); draw();
    },
  };
}

function roleName(graph, node) { return graph.name[node] || graph.roles[graph.role[node]]; }

function nodeLine(graph, node) {
  const fork = graph.forks[node];
  return ["node " + node, roleName(graph, node), graph.sampled[node] ? "sampled" : "", "call " + graph.call[node],
    graph.tokens && graph.tokens[node] ? number(graph.tokens[node]) + " tokens" : "", fork ? "fork: " + fork.cause : "", graph.text[node]].filter(Boolean).join(" · ");
}

function roleSign(graph, node) {
  const role = graph.roles[graph.role[node]];
  return h("span", { class: "vfnb-role", style: "color:var(--vfnb-" + role + ")" }, SIGNS[graph.role[node]] + " " + roleName(graph, node));
}

function piece([kind, head, text], full) {
  const lines = text.split("\n");
  const clipped = !full && (text.length > CLIP || lines.length > 16);
  const shown = clipped ? lines.slice(0, 16).join("\n").slice(0, CLIP) + " …" : text;
  const title = kind === "call" ? h("div", { class: "vfnb-call" }, "→ " + head) : kind === "text" ? null : h("div", { class: "vfnb-dim" }, head);
  return { clipped, node: h("div", { class: "vfnb-piece vfnb-of-" + kind }, title, h("div", { class: kind === "call" ? "vfnb-mono" : "vfnb-words" }, shown)) };
}

function conversation(model, on, key, get, choose) {
  const box = h("div", { class: "vfnb-talk", role: "list", "aria-label": "conversation", tabindex: 0 });
  const cards = new Map(), full = new Set(), seen = new Set();
  let graph = null, path = [], from = 0, to = 0, anchor = -1;  // the anchor stays in sight until the reader scrolls
  const watch = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      const node = Number(entry.target.dataset.node);
      if (entry.isIntersecting) { seen.add(node); fill(node); } else seen.delete(node);
    }
  }, { root: box, rootMargin: "300px" });
  on.add(() => watch.disconnect());
  const hold = nextFrame(() => { if (cards.has(anchor)) bring(cards.get(anchor)); });
  for (const event of ["wheel", "pointerdown", "touchmove"]) on.dom(box, event, () => { anchor = -1; }, { passive: true });

  function fill(node) {
    const card = cards.get(node), found = get(key("message", node));
    if (!card || !found) return;
    const way = full.has(node) ? "full" : "clipped";
    if (card.dataset.filled === way) return;
    card.dataset.filled = way;
    const body = card.querySelector(".vfnb-text");
    if (found.error) { body.replaceChildren(h("div", { class: "vfnb-alarm" }, found.error)); return; }
    const made = found.pieces.map((one) => piece(one, full.has(node)));
    const size = found.pieces.reduce((sum, one) => sum + one[2].length, 0);
    const more = made.some((one) => one.clipped) || full.has(node)
      ? button(full.has(node) ? "show less" : "show all " + number(size) + " characters", "show the whole message or its beginning", () => open(node)) : null;
    hold();
    body.replaceChildren(...(made.length ? made.map((one) => one.node) : [h("div", { class: "vfnb-dim" }, "(empty)")]), ...(more ? [more] : []));
  }
  function open(node) {
    if (!full.delete(node)) full.add(node);
    fill(node);
  }
  function ways(node, index) {
    const next = path[index + 1], found = [];
    for (const [first] of graph.tips) {
      if (first === next || graph.parent[first] !== node) continue;
      found.push(button("↳ " + (graph.forks[first]?.cause || "branch").replace("_", " ") + " at node " + first, "go to the branch at node " + first, () => choose(first)));
    }
    for (const [source, target, kind] of graph.links) {
      const [to, back] = RELATIONS[kind];
      if (source === node) found.push(button(to + " node " + target, "go to node " + target, () => choose(target)));
      if (target === node) found.push(button(back + " node " + source, "go to node " + source, () => choose(source)));
    }
    const older = graph.forks[node];
    if (older) found.unshift(h("span", { class: "vfnb-tone-warn" }, "↳ this branch: " + older.cause.replace("_", " ") + (older.detail ? ", " + older.detail : "")));
    return found.length ? h("div", { class: "vfnb-ways" }, found) : null;
  }
  function card(node, index) {
    const shared = graph.branch[node] !== graph.branch[path[path.length - 1]];
    const facts = [graph.sampled[node] ? "sampled" : "", "node " + node, graph.tokens && graph.tokens[node] ? number(graph.tokens[node]) + " tokens" : "", shared ? "of an older branch" : ""];
    const made = h("div", { class: "vfnb-card" + (shared ? " vfnb-shared" : ""), role: "listitem", "data-node": node, on: { click: (event) => { if (event.target.closest("button") || String(window.getSelection())) return; choose(node); focusSoon(box); } } },
      h("div", { class: "vfnb-head" }, roleSign(graph, node), h("span", { class: "vfnb-dim" }, facts.filter(Boolean).join(" · "))),
      h("div", { class: "vfnb-text" }, h("div", { class: "vfnb-words" }, graph.text[node])), ways(node, index));
    made.style.setProperty("--vfnb-edge", "var(--vfnb-" + graph.roles[graph.role[node]] + ")");
    cards.set(node, made);
    watch.observe(made);
    return made;
  }
  function build(center) {
    watch.disconnect(); cards.clear(); seen.clear();
    from = Math.max(0, center - WINDOW); to = Math.min(path.length, center + WINDOW);
    const earlier = from ? button("… " + number(from) + " earlier messages", "show earlier messages", () => { build(Math.max(0, from - WINDOW / 2)); box.scrollTop = 0; }) : null;
    const later = to < path.length ? button("… " + number(path.length - to) + " later messages", "show later messages", () => { const top = path[to]; build(to); cards.get(top)?.scrollIntoView({ block: "nearest" }); }) : null;
    box.replaceChildren(...[earlier, ...path.slice(from, to).map((node, index) => card(node, from + index)), later].filter(Boolean));
  }
  // Scrolls inside the panel alone: scrollIntoView would move the notebook too.
  function bring(made) {
    const edge = box.getBoundingClientRect(), own = made.getBoundingClientRect();
    if (own.top < edge.top || own.height > edge.height) box.scrollTop += own.top - edge.top - 6;
    else if (own.bottom > edge.bottom) box.scrollTop += own.bottom - edge.bottom + 6;
  }
  function select(node) {
    for (const made of box.querySelectorAll("[aria-current]")) made.removeAttribute("aria-current");
    const index = path.indexOf(node);
    if (index < 0) return;
    if (index < from || index >= to) build(index);
    const made = cards.get(node);
    made.setAttribute("aria-current", "true");
    anchor = node;
    bring(made);
    hold();
  }
  return {
    box, select, open, path: () => path,
    filled() { for (const node of seen) fill(node); },
    set(next, way, fresh) {
      const same = !fresh && graph && way.length === path.length && way.every((node, index) => node === path[index]) && next.tips.length === graph.tips.length;
      graph = next;
      if (same) return;
      const kept = fresh ? 0 : box.scrollTop, at = path.length ? from + WINDOW : 0;
      if (fresh) full.clear();
      path = way;
      build(Math.min(at, Math.max(0, path.length - 1)));
      box.scrollTop = kept;
    },
  };
}

function tokenNodes(found) {
  if (!found.ids.length) return [h("div", { class: "vfnb-dim" }, "no tokens are recorded for this message")];
  const made = found.ids.map((id, index) => {
    const logprob = found.logprobs[index], sampled = found.sampled[index], text = found.texts ? found.texts[index] : id + " ";
    const tint = sampled ? Math.min(0.75, -logprob / 6) : 0;
    return h("span", { class: sampled ? "vfnb-token" : "vfnb-token vfnb-dim", style: tint > 0.02 ? "background:rgba(230,110,0," + tint.toFixed(2) + ")" : false,
      title: "token " + id + (sampled ? ", logprob " + logprob + " (" + (100 * Math.exp(logprob)).toFixed(1) + " %)" : ", not sampled") }, text);
  });
  const head = (found.texts ? "" : "token ids; ") + "orange: improbable when sampled; dim: not sampled";
  const cut = found.cut ? h("div", { class: "vfnb-dim" }, number(found.cut) + " more tokens; trace.branches has them") : null;
  return [h("div", { class: "vfnb-dim" }, head), h("div", { class: "vfnb-mono" }, made), cut].filter(Boolean);
}

function inspector(model, on, key, get) {
  const names = { facts: "Facts", request: "Request", tokens: "Tokens", fork: "Fork" };
  const body = h("div", { class: "vfnb-inspect", role: "tabpanel", tabindex: 0, "aria-label": "about the chosen message" });
  const tabs = Object.entries(names).map(([name, label]) => h("button", { type: "button", role: "tab", "data-tab": name, on: { click: () => put(model, { tab: name }) } }, label));
  const box = h("div", { class: "vfnb-about" }, h("div", { class: "vfnb-bar", role: "tablist", "aria-label": "about the chosen message" }, tabs), body);
  const list = (pairs) => h("dl", {}, pairs.map(([name, text]) => [h("dt", {}, name), h("dd", {}, text)]));
  let drawn = "";
  function draw(graph) {
    const node = model.get("selected"), tab = names[model.get("tab")] ? model.get("tab") : "facts";
    for (const one of tabs) one.setAttribute("aria-selected", String(one.dataset.tab === tab));
    if (!graph || node < 0 || node >= graph.parent.length) {
      body.replaceChildren(h("div", { class: "vfnb-dim" }, "Click a message, or walk with the arrow keys. / searches, f folds, 0 fits."), ...(graph?.lines || []).map((line) => h("div", {}, line)));
      drawn = "";
      return;
    }
    const call = graph.call[node], fork = graph.branch[node];
    const asked = { facts: ["message", node], request: ["request", call], tokens: ["tokens", node], fork: ["fork", fork] }[tab];
    const found = get(key(...asked)), state = tab + key(...asked) + Boolean(found);
    if (state === drawn) return;
    drawn = state;
    if (!found) { body.replaceChildren(h("div", { class: "vfnb-dim" }, "…")); return; }
    if (found.error) { body.replaceChildren(h("div", { class: "vfnb-alarm" }, found.error)); return; }
    if (tab === "facts") body.replaceChildren(list(found.facts));
    else if (tab === "request") body.replaceChildren(h("div", { class: "vfnb-dim" }, found.head), h("div", { class: "vfnb-mono" }, found.text));
    else if (tab === "tokens") body.replaceChildren(...tokenNodes(found));
    else if (found.older < 0) body.replaceChildren(list(found.facts));
    else body.replaceChildren(list(found.facts), h("div", { class: "vfnb-dim" }, "node " + found.older + " of the older branch against node " + fork + " of this one:"), h("div", { class: "vfnb-words" }, spanNodes(found.spans)));
  }
  return { box, draw };
}

function tracePanel(model, root) {
  const on = listeners(model);
  let graph = null, path = [], shown = "";
  const key = (kind, n) => graph.id + ":" + kind + ":" + n;
  const choose = (node) => put(model, { selected: node });
  const get = details(model, on, () => { talk.filled(); about.draw(graph); });
  const canvas = graphCanvas(model, on, choose), talk = conversation(model, on, key, get, choose), about = inspector(model, on, key, get);
  const said = h("div", { class: "vfnb-hidden", "aria-live": "polite" });
  const head = h("div", { class: "vfnb-bar vfnb-title" }), errors = h("div", {});
  const search = h("input", { type: "search", placeholder: "search messages  /", "aria-label": "search in all messages", class: "vfnb-search" });
  const found = h("span", { class: "vfnb-dim", role: "status" });
  const fold = button("fold", "fold long chains (f)", () => put(model, { folded: !model.get("folded") }));
  const branches = h("select", { "aria-label": "branch shown" });
  const bar = h("div", { class: "vfnb-bar", role: "toolbar", "aria-label": "search and view" }, search,
    button("‹", "previous hit (N)", () => hit(-1)), button("›", "next hit (n)", () => hit(1)), found,
    h("span", { class: "vfnb-push" }), fold, button("−", "zoom out (-)", () => canvas.zoomBy(0.7)), button("+", "zoom in (+)", () => canvas.zoomBy(1.4)), button("fit", "show the whole graph (0)", () => canvas.fit()));
  const left = h("div", { class: "vfnb-where" }, canvas.box, h("div", { class: "vfnb-key vfnb-dim" }, "■ system ● user ◆ assistant ▲ tool ✕ other · filled: sampled · dotted: related"), about.box);
  const right = h("div", { class: "vfnb-read" }, h("div", { class: "vfnb-bar" }, branches), talk.box);
  const main = h("div", { class: "vfnb-panel" }, head, errors, bar, h("div", { class: "vfnb-split" }, left, right), said);
  root.append(main);

  function header() {
    head.replaceChildren(h("b", {}, graph.title), h("span", { class: "vfnb-tone-" + graph.tone }, { good: "✓ ", bad: "✗ ", warn: "! ", none: "· " }[graph.tone] + graph.state), h("span", {}, graph.reward));
    errors.replaceChildren(...graph.errors.map((line) => h("div", { class: "vfnb-alarm" }, line)));
    branches.replaceChildren(...graph.tips.map(([first, leaf], index) => h("option", { value: leaf },
      "branch " + index + (first === graph.main ? ", main" : "") + ": " + pathTo(graph.parent, leaf).length + " messages" + (graph.forks[first] ? ", " + graph.forks[first].cause.replace("_", " ") : ""))));
  }
  function follow(fresh) {
    const leaf = followed(graph, model.get("selected"), model.get("leaf"));
    path = pathTo(graph.parent, leaf);
    branches.value = String(leaf);
    canvas.set(graph, path, fresh);
    talk.set(graph, path, fresh);
  }
  function take() {
    graph = model.get("graph").id ? model.get("graph") : null;
    main.hidden = !graph;
    if (!graph) return;
    const fresh = graph.id !== shown;
    shown = graph.id;
    header(); follow(fresh); select();
    main.dataset.nodes = graph.parent.length;
  }
  function select() {
    if (!graph) return;
    const node = model.get("selected");
    follow(false);
    about.draw(graph);
    if (node < 0 || node >= graph.parent.length) return;
    talk.select(node);
    canvas.show(node);
    said.textContent = nodeLine(graph, node);
  }
  function hit(way) {
    const hits = model.get("hits"), node = model.get("selected");
    if (!hits.length) return;
    const next = way > 0 ? hits.find((one) => one > node) ?? hits[0] : hits.findLast((one) => one < node) ?? hits[hits.length - 1];
    choose(next);
  }
  function walk(way) {
    const index = path.indexOf(model.get("selected"));
    const next = path[index < 0 ? 0 : index + way];
    if (next !== undefined) choose(next);
  }
  function otherBranch(way) {
    const at = graph.tips.findIndex(([, leaf]) => leaf === path[path.length - 1]), next = graph.tips[at + way];
    if (next) put(model, { leaf: next[1], selected: next[0] });
  }
  const keys = {
    ArrowUp: () => walk(-1), ArrowLeft: () => walk(-1), ArrowDown: () => walk(1), ArrowRight: () => walk(1), Home: () => choose(path[0]), End: () => choose(path[path.length - 1]),
    Enter: () => model.get("selected") >= 0 && talk.open(model.get("selected")), "/": () => search.focus(), n: () => hit(1), N: () => hit(-1),
    f: () => fold.click(), 0: () => canvas.fit(), "+": () => canvas.zoomBy(1.4), "-": () => canvas.zoomBy(0.7),
  };
  on.dom(main, "keydown", (event) => {
    const typing = event.target.closest("input, select"), pressed = event.target.closest("button");
    if (event.target === search && event.key === "Enter") hit(event.shiftKey ? -1 : 1);
    else if (event.target === search && event.key === "Escape") { search.value = ""; put(model, { query: "" }); canvas.box.firstChild.focus(); }
    else if (typing || (pressed && event.key === "Enter") || event.ctrlKey || event.metaKey || event.altKey || !graph) return;
    else if (event.shiftKey && event.key.startsWith("Arrow")) otherBranch(/Up|Left/.test(event.key) ? -1 : 1);
    else if (keys[event.key]) keys[event.key]();
    else return;
    event.preventDefault(); event.stopPropagation();
  });
  let timer = 0;
  on.dom(search, "input", () => { clearTimeout(timer); timer = setTimeout(() => put(model, { query: search.value }), 200); });
  on.add(() => clearTimeout(timer));
  on.dom(branches, "change", () => put(model, { leaf: Number(branches.value), selected: pathTo(graph.parent, Number(branches.value)).includes(model.get("selected")) ? model.get("selected") : -1 }));
  const searched = () => {
    if (search.value.trim() !== model.get("query").trim()) search.value = model.get("query");
    found.textContent = model.get("query").trim() ? number(model.get("hits").length) + " found" : "";
    if (graph) canvas.set(graph, path, false);
  };
  const folded = () => {
    fold.setAttribute("aria-pressed", String(model.get("folded")));
    if (graph) { canvas.set(graph, path, false); canvas.fit(); }
  };
  on.model("graph", take);
  on.model("selected leaf", select);
  on.model("tab", () => about.draw(graph));
  on.model("hits query", searched);
  on.model("folded", folded);
  folded(); searched(); take();
  return { draw: canvas.draw, stop() { on.stop(); main.remove(); } };
}
