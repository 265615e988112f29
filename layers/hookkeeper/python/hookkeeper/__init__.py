"""Hookkeeper: a serverless webhook sender that loses nothing to a suspension."""

__version__ = "0.1.0"
