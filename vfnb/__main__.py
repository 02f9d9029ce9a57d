"""`python -m vfnb` is the command `vfnb`."""

import sys

from vfnb.cli import main

if __name__ == "__main__":
    sys.exit(main())
