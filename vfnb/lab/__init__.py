"""Room of vfnb."""
