"""Our side of each workload, one small program per kind; each prints its figures as one JSON line."""
