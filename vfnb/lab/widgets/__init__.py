"""Views to click in: anywidget classes, their code in plain ESM files beside them, all state in traits.

Nothing is imported here; `trace.view()` and the like load what they need.
"""
