"""What every html twin must keep to, so that it survives a saved, untrusted notebook."""

from __future__ import annotations

import re
from html.parser import HTMLParser

ALLOWED_TAGS = {
    "b", "br", "caption", "code", "details", "div", "img", "progress", "span", "summary",
    "table", "tbody", "td", "th", "thead", "tr",
}  # fmt: skip
ALLOWED_ATTRIBUTES = {"class", "style", "title", "open", "src", "alt", "value", "max", "width", "height"}
# The properties and value forms that JupyterLab 4.6 keeps; colours need a plain rgb() somewhere in the value.
ALLOWED_STYLES = {
    "border": r"\d+px solid rgba\(.*\)",
    "border-bottom": r"\d+px solid rgba\(.*\)",
    "border-collapse": "collapse",
    "border-left": r"\d+px solid rgba\(.*\)",
    "caption-side": "top",
    "color": r"var\(--jp-[a-z0-9-]+, rgb\(\d+,\d+,\d+\)\)",
    "cursor": "pointer",
    "font-family": "monospace",
    "font-weight": "bold",
    "line-height": r"[\d.]+",
    "margin": r"(\d+px ?)+",
    "max-width": r"\d+(px|%)",
    "opacity": r"0\.\d+",
    "overflow-wrap": "break-word",
    "overflow-x": "auto",
    "padding": r"(\d+px ?)+",
    "text-align": "left",
    "vertical-align": "top",
    "white-space": "pre-wrap",
    "width": r"\d+%",
}
_VOID = {"br", "img"}


class _Checker(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.problems: list[str] = []
        self.stack: list[str] = []
        self.images: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ALLOWED_TAGS:
            self.problems.append(f"tag {tag}")
        if tag not in _VOID:
            self.stack.append(tag)
        for name, value in attrs:
            if name not in ALLOWED_ATTRIBUTES:
                self.problems.append(f"attribute {name} on {tag}")
            if name == "src":
                self.images.append(value or "")
                if not (value or "").startswith("data:image/svg+xml;base64,"):
                    self.problems.append(f"remote image {value}")
            if name == "style" and not value:
                self.problems.append(f"empty style on {tag}")
            if name == "style":
                self._style(value or "")

    def _style(self, value: str) -> None:
        for part in filter(None, value.split(";")):
            name, _, given = part.partition(":")
            if not re.fullmatch(ALLOWED_STYLES.get(name, "(?!)"), given):
                self.problems.append(f"style {part}")

    def handle_endtag(self, tag: str) -> None:
        if not self.stack or self.stack.pop() != tag:
            self.problems.append(f"unbalanced </{tag}>")

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_comment(self, data: str) -> None:
        self.problems.append("comment")


def check_html(html: str) -> _Checker:
    """Parse the twin and fail on anything that a reader of a saved notebook would lose or should not get."""
    checker = _Checker()
    checker.feed(html)
    checker.close()
    assert checker.problems == []
    assert checker.stack == []
    assert len(html.encode()) <= 200_000
    assert "\x1b" not in html
    assert "\u202e" not in html
    return checker


def check_bundle(bundle: dict[str, str]) -> _Checker:
    """Check text and html of a display."""
    assert set(bundle) >= {"text/plain", "text/html"}
    text = bundle["text/plain"]
    assert 0 < len(text.splitlines()) <= 20
    assert max(map(len, text.splitlines())) <= 110
    assert "\x1b" not in text
    assert "\u202e" not in text
    return check_html(bundle["text/html"])
