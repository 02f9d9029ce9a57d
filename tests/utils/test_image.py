"""Images as data URLs."""

from __future__ import annotations

import base64
import io
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from vfnb.errors import ConfigError
from vfnb.utils.image import image_data_url


def _decoded(url: str) -> tuple[str, bytes]:
    kind, _, data = url.removeprefix("data:").partition(";base64,")
    return kind, base64.b64decode(data)


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L", "1", "P", "CMYK", "F"])
def test_a_pil_image_becomes_a_png_with_the_same_pixels(mode: str) -> None:
    image = Image.new("RGB", (3, 2), (10, 20, 30)).convert(mode)
    kind, data = _decoded(image_data_url(image))
    assert kind == "image/png"
    wanted = image if mode not in ("CMYK", "F") else image.convert("RGB")
    assert Image.open(io.BytesIO(data)).convert("RGBA").tobytes() == wanted.convert("RGBA").tobytes()
    assert image_data_url(image) == image_data_url(image.copy())


def test_an_image_file_is_taken_byte_by_byte(tmp_path: Path) -> None:
    for suffix in ("png", "jpeg", "gif", "webp"):
        path = tmp_path / f"image.{suffix}"
        Image.new("RGB", (2, 2), (200, 0, 0)).save(path)
        assert _decoded(image_data_url(path)) == (f"image/{suffix}", path.read_bytes())
        assert image_data_url(path.read_bytes()) == image_data_url(path)


def test_anything_else_is_refused() -> None:
    with pytest.raises(ConfigError, match="no PNG, JPEG, GIF or WebP"):
        image_data_url(b"%PDF-1.7")
    with pytest.raises(ConfigError, match="give a PIL image"):
        image_data_url("image.png")  # type: ignore[arg-type]


def test_without_pillow_the_extra_is_named() -> None:
    code = (
        "import sys; sys.modules['PIL'] = None\n"
        "from vfnb.utils.image import image_data_url\n"
        "from vfnb.errors import MissingExtra\n"
        "try:\n    image_data_url(object())\n"
        "except MissingExtra as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'vfnb[image]'" in done.stdout
