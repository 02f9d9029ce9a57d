"""The command line: `vfnb eval` and `vfnb validate`, thin over the same configs and functions that Python has."""

from vfnb.cli.main import eval_main, main, validate_main

__all__ = ["eval_main", "main", "validate_main"]
