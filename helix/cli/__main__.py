"""The command as a module: `python -m helix.cli`."""

import sys

from helix.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
