// Helpers that all views share. Text from models goes into text nodes only, never into markup.

function h(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name === "on") for (const [event, handler] of Object.entries(value)) node.addEventListener(event, handler);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, String(value));
  }
  // JupyterLab's shortcuts stay away from an element with this mark; it has to be on the focused element itself.
  if (/^(button|input|select)$/.test(tag) || (attributes && "tabindex" in attributes)) node.setAttribute("data-lm-suppress-shortcuts", "true");
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

function button(label, title, act, attributes) {
  return h("button", { type: "button", title, "aria-label": title, on: { click: act }, ...attributes }, label);
}

// Listeners of one view; `stop` removes them all.
function listeners(model) {
  const stops = [];
  return {
    model(names, act) {
      for (const name of names.split(" ")) {
        model.on("change:" + name, act);
        stops.push(() => model.off("change:" + name, act));
      }
    },
    dom(target, event, act, options) {
      target.addEventListener(event, act, options);
      stops.push(() => target.removeEventListener(event, act, options));
    },
    add(stop) { stops.push(stop); },
    stop() { while (stops.length) stops.pop()(); },
  };
}

// Notebook 7 takes the focus on a click; arrows are for the view that was clicked.
function focusSoon(target) { requestAnimationFrame(() => target.focus({ preventScroll: true })); }

function put(model, values) {
  for (const [name, value] of Object.entries(values)) model.set(name, value);
  model.save_changes();
}

// Large text by key: `get` gives it or asks for it once; `changed` is called when answers arrive.
function details(model, on, changed) {
  const cache = new Map(), open = new Set();
  let asked = false;
  const ask = () => {
    asked = false;
    if (open.size) put(model, { wanted: { keys: [...open].slice(-200), n: Date.now() + Math.random() } });
  };
  const take = () => {
    const answers = Object.entries(model.get("detail") || {});
    for (const [key, value] of answers) { cache.set(key, value); open.delete(key); }
    if (answers.length) changed();
  };
  on.model("detail", take);
  for (const [key, value] of Object.entries(model.get("detail") || {})) cache.set(key, value);
  return (key) => {
    if (cache.has(key)) return cache.get(key);
    if (!open.has(key)) {
      open.add(key);
      if (!asked) { asked = true; queueMicrotask(ask); }
    }
    return null;
  };
}

// Whether the page behind `el` is dark, whatever front end drew it.
function isDark(el) {
  for (let at = el; at; at = at.parentElement || at.getRootNode().host) {
    const found = /rgba?\(([\d.]+)[, ]+([\d.]+)[, ]+([\d.]+)(?:[,/ ]+([\d.]+))?/.exec(getComputedStyle(at).backgroundColor);
    if (found && Number(found[4] ?? 1) > 0.5) return 0.3 * found[1] + 0.59 * found[2] + 0.11 * found[3] < 110;
  }
  return false;
}

// Keeps the class `vfnb-dark` true to the theme; `changed` is called when that changes.
function watchTheme(root, on, changed) {
  const look = () => {
    const dark = isDark(root.parentElement || root);
    if (dark === root.classList.contains("vfnb-dark") && root.dataset.theme) return;
    root.dataset.theme = dark ? "dark" : "light";
    root.classList.toggle("vfnb-dark", dark);
    changed();
    setTimeout(changed, 300);  // styles of the new theme may still be on their way
  };
  const observer = new MutationObserver(() => setTimeout(look, 50));
  observer.observe(document.body, { attributes: true });
  on.add(() => observer.disconnect());
  requestAnimationFrame(look);
}

// Runs `act` once in the next frame, however often it is called.
function nextFrame(act) {
  let waiting = false;
  return () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; act(); });
  };
}

function spanNodes(spans) {
  const tags = { same: "span", left: "del", right: "ins" };
  return spans.map(([kind, text]) => h(tags[kind], { class: "vfnb-" + kind }, text));
}

const number = (value) => (value === null || value === undefined ? "-" : Number(value).toLocaleString("en-US"));
