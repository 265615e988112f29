"""Not yet written."""


def handler(event: object, context: object) -> None:
    """Refuses every call."""
    raise NotImplementedError
