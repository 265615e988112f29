"""The operator's `hookkeeper` command, and the clients it speaks with."""
