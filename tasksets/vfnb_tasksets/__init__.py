"""Tasksets for vfnb."""
