"""``python -m understudy`` is the command line."""

import sys

from understudy.cli import main

sys.exit(main())
