"""What makes the site: `python -m docs.tools.build`, `gallery`, `notebooks`, `browse`."""
