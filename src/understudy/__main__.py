"""``python -m understudy`` is the command line."""

import sys

from understudy.cli import main

if __name__ == "__main__":
    sys.exit(main())
