"""Small programs around agent libraries. Each runs in the library's own environment, never in this process.

A driver reads its request from the JSON file that is its last argument (see `vfnb_harnesses.driven`), runs the
library's own agent loop with a shell and files besides the tools of the task, prints the final answer, and exits
with 0, or with `MAX_TURNS_STATUS` if its turns were used up.
"""
