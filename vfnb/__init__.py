"""A Jupyter-native research SDK for agentic RL and evaluation."""
