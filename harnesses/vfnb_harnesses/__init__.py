"""Agent programs for vfnb."""
