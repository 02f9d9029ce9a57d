"""Finished runs for other programs: training samples with advantages, prime-rl, SFT and Arrow exports."""

from vfnb.utils.lazy import lazy

__getattr__ = lazy(
    __name__,
    {
        "credit": "Advantage advantages",
        "exporting": "FORMATS ExportOptions export",
        "notes": "ExportReport Note",
        "packing": "Piece pack",
        "reading": "read_episodes read_manifest read_rollouts read_samples read_sft",
        "training": "LeftOut SampleList collect",
        "wire": "MicroBatch",
    },
)

__all__ = [
    "FORMATS",
    "Advantage",
    "ExportOptions",
    "ExportReport",
    "LeftOut",
    "MicroBatch",
    "Note",
    "Piece",
    "SampleList",
    "advantages",
    "collect",
    "export",
    "pack",
    "read_episodes",
    "read_manifest",
    "read_rollouts",
    "read_samples",
    "read_sft",
]
