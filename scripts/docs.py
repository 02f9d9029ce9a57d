"""The documentation: check the links of all pages, and build the API reference with pdoc.

python scripts/docs.py --check      only the links
python scripts/docs.py build/docs   the links, then the reference
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


if __name__ == "__main__":
    check()
    if sys.argv[1] != "--check":
        build(Path(sys.argv[1]))
