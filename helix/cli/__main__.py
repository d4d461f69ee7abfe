"""`python -m helix.cli`."""

import sys

from helix.cli.main import main

sys.exit(main())
