"""Finished runs for other programs: training samples with advantages."""

from vfnb.utils.lazy import lazy

__getattr__ = lazy(
    __name__,
    {"advantages": "Advantage advantages", "training": "LeftOut SampleList collect"},
)

__all__ = ["Advantage", "LeftOut", "SampleList", "advantages", "collect"]
