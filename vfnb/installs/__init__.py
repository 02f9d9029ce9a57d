"""Agent programs, installed once per machine."""

from typing import TYPE_CHECKING

from vfnb.utils.lazy import lazy

if TYPE_CHECKING:
    from vfnb.installs.cache import cache_folder as cache_folder
    from vfnb.installs.cache import ensure as ensure
    from vfnb.installs.cache import find as find
    from vfnb.installs.cache import remove as remove
    from vfnb.installs.cache import under_way as under_way
    from vfnb.installs.installed import Installed as Installed
    from vfnb.installs.npm import Node as Node
    from vfnb.installs.npm import Npm as Npm
    from vfnb.installs.pypi import PyPI as PyPI
    from vfnb.installs.recipe import Recipe as Recipe
else:
    __getattr__ = lazy(
        __name__,
        {
            "cache": "cache_folder ensure find remove under_way",
            "installed": "Installed",
            "npm": "Node Npm",
            "pypi": "PyPI",
            "recipe": "Recipe",
        },
    )

__all__ = [
    "Installed",
    "Node",
    "Npm",
    "PyPI",
    "Recipe",
    "cache_folder",
    "ensure",
    "find",
    "remove",
    "under_way",
]
