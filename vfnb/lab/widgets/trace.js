// `trace.view()`: one trace.

export default {
  render({ model, el }) {
    const on = listeners(model), root = h("div", { class: "vfnb-view vfnb-trace-view" });
    el.append(root);
    const panel = tracePanel(model, root);
    watchTheme(root, on, panel.draw);
    return () => { panel.stop(); on.stop(); root.remove(); };
  },
};
