"""The stack that deploys Hookkeeper, its local stage and its command line."""
