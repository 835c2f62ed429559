"""A suite of posteriors of every kind a modeller brings, with references to compare draws against."""
