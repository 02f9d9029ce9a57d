"""Runs for other programs and from them: training samples, exports, imports."""

from vfnb.utils.lazy import lazy

__getattr__ = lazy(
    __name__,
    {
        "credit": "Advantage advantages",
        "exporting": "FORMATS export",
        "imports": "Fault ImportReport import_run",
        "notes": "ExportReport Note",
        "options": "ExportOptions",
        "packing": "pack",
        "pieces": "Images Piece",
        "reading": "read_episodes read_manifest read_rollouts read_samples read_sft read_training_samples",
        "training": "LeftOut SampleList collect",
        "wire": "MicroBatch TrainingSample",
    },
)

__all__ = [
    "FORMATS",
    "Advantage",
    "ExportOptions",
    "ExportReport",
    "Fault",
    "Images",
    "ImportReport",
    "LeftOut",
    "MicroBatch",
    "Note",
    "Piece",
    "SampleList",
    "TrainingSample",
    "advantages",
    "collect",
    "export",
    "import_run",
    "pack",
    "read_episodes",
    "read_manifest",
    "read_rollouts",
    "read_samples",
    "read_sft",
    "read_training_samples",
]
