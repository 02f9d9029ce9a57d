"""Figures as .png, drawn by a real Chromium, also while a loop runs as it does in a notebook."""

from __future__ import annotations

import asyncio
import io
from pathlib import Path

import pytest
from PIL import Image
from support.talks import family

import vfnb as vf

pytestmark = [pytest.mark.real, pytest.mark.timeout(180)]


def test_the_picture_shows_the_interactive_figure_and_its_changes(tmp_path: Path) -> None:
    vf.theme("dark")
    try:
        plot = family().plot()
    finally:
        vf.theme("light")
    plot.figure.update_layout(width=500, height=300)

    async def save() -> bytes:
        return plot.save(tmp_path / "a.png").read_bytes()

    picture = Image.open(io.BytesIO(asyncio.run(save()))).convert("RGB")
    assert picture.size == (1000, 600)
    assert picture.getpixel((2, 2)) == (0x15, 0x18, 0x1C)
    colors = {color for _, color in picture.getcolors(1_000_000) or []}
    assert (0x2F, 0xC7, 0x9A) in colors  # the replies
