from vfnb.lab.run_twin import run_bundle, run_line, run_repr, run_text
