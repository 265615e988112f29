"""The embedded AWS: starts it, deploys the very stack to it, and stops it again."""
