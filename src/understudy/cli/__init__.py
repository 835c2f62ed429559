"""The command line."""

from understudy.cli.main import main

__all__ = ["main"]
