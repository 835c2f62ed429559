"""The fit without settings beside its rivals; the same as ``understudy bench posteriors``, same options.

Run: ``python benchmarks/posteriors.py --preset quick``.
"""

import sys

from understudy.cli import main

if __name__ == "__main__":
    sys.exit(main(["bench", "posteriors", *sys.argv[1:]]))
