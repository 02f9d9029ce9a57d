"""How the embedded model was made: `python -m vfnb.clients.engines.training FOLDER` makes it again."""
