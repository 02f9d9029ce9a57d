"""The documentation: check the links of all pages, build the API reference with pdoc and the notebooks as pages.

python scripts/docs.py --check      only the links
python scripts/docs.py build/docs   the links, then the reference and the notebooks
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"(?<!`)\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.+)$", re.MULTILINE)
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>
body {{ max-width: 960px; margin: 2em auto; padding: 0 1em; font: 16px/1.5 system-ui, sans-serif }}
pre {{ overflow-x: auto; padding: 0.6em; background: rgba(128, 128, 128, 0.1); font-size: 14px }}
.prompt, .anchor-link {{ display: none }} img {{ max-width: 100% }} table {{ border-collapse: collapse }}
</style></head><body>{body}</body></html>
"""


def pages() -> list[Path]:
    """Every tracked or new Markdown page of the project."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    return [ROOT / name for name in names if (ROOT / name).is_file()]


def anchors(page: Path) -> set[str]:
    """The anchors that headings get: lower case, spaces to dashes, punctuation gone."""
    headings = HEADING.findall(FENCE.sub("", page.read_text()))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def dead_links(page: Path) -> Iterator[str]:
    for link in LINK.findall(FENCE.sub("", page.read_text())):
        if re.match(r"[a-z]+:", link):
            continue  # another site: not reachable from every machine
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        missing = not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target))
        if missing:
            yield f"{page.relative_to(ROOT)}: no such page or heading: {link}"


def check() -> None:
    problems = [problem for page in pages() for problem in dead_links(page)]
    if problems:
        sys.exit("\n".join(problems))


def build(target: Path) -> None:
    import pdoc

    import vfnb

    for name in vfnb.__all__:  # public names load on first use; pdoc looks only at what is loaded
        vars(vfnb)[name] = getattr(vfnb, name)
    pdoc.render.configure(docformat="google", search=False)
    pdoc.pdoc("vfnb", "!vfnb.__main__", output_directory=target)
    print(f"The API reference: {target / 'vfnb.html'}")


def render(target: Path) -> None:
    """The example notebooks with their stored outputs as static pages: no script, nothing from elsewhere."""
    from nbconvert import HTMLExporter
    from traitlets.config import Config

    kinds = ["text/html", "image/svg+xml", "image/png", "text/markdown", "text/plain"]  # no live widgets
    settings = Config({"NbConvertBase": {"display_data_priority": kinds}})
    exporter = HTMLExporter(config=settings, template_name="basic", embed_images=True)
    target.mkdir(parents=True, exist_ok=True)
    for notebook in sorted((ROOT / "notebooks").glob("*.ipynb")):
        body, _ = exporter.from_filename(str(notebook))
        if "<script" in body:
            sys.exit(f"{notebook.name} has an output with a script; give it a static twin")
        page = target / f"{notebook.stem}.html"
        page.write_text(PAGE.format(title=notebook.stem, body=body), encoding="utf-8")
        print(f"{page}: {page.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    check()
    if sys.argv[1] != "--check":
        build(Path(sys.argv[1]))
        render(Path(sys.argv[1]) / "notebooks")
