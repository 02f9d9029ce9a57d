"""The tool loop as a program: Chat Completions, tools over MCP, a shell and files. Standard library only.

It runs wherever there is a Python, from this folder or from one zip file (see `vfnb_harnesses.launch`). The loop of
the notebook's process uses its `words`: a conversation reads the same wherever its loop runs.
"""
