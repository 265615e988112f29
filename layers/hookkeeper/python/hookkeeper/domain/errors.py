"""The tree of refusals: what a caller is told when a thing cannot be done.

HookkeeperError
├── InvalidInputError        the words of the request are wrong            422
│   └── EndpointRefusedError     (domain/endpoint.py)
├── NotFoundError            no such thing in this tenant and mode         404
├── ConflictError            it stands in the way of what exists           409
│   ├── DuplicateSubscriptionError
│   └── IllegalTransitionError
├── NotAllowedError          consent does not reach so far                 403
├── StaleVersionError        If-Match names an older version               412
├── LimitedError             too often within the hour                     429
└── OwnFaultError            ours: KMS, a table, the resolver; never an endpoint's outcome
    └── SecretUnavailableError
"""

from datetime import datetime


class HookkeeperError(Exception):
    """Root of every refusal that Hookkeeper raises on purpose."""


class InvalidInputError(HookkeeperError):
    """The input breaks a rule; `code` is stable, `pointer` is a JSON pointer into the body."""

    def __init__(self, detail: str, *, code: str, pointer: str = "") -> None:
        super().__init__(detail)
        self.detail = detail
        self.code = code
        self.pointer = pointer


class NotFoundError(HookkeeperError):
    """Nothing of that id in this tenant and mode; the same for another tenant's id."""

    def __init__(self, kind: str, wanted: str) -> None:
        super().__init__(f"no {kind} {wanted}")
        self.kind = kind
        self.wanted = wanted


class ConflictError(HookkeeperError):
    """The request is well formed, but what exists stands against it."""

    code = "conflict"


class DuplicateSubscriptionError(ConflictError):
    """The tenant has a subscription for this endpoint and resource already."""

    code = "duplicate_subscription"

    def __init__(self, existing_id: str) -> None:
        super().__init__(f"{existing_id} already has this endpoint_url and resource_id")
        self.existing_id = existing_id


class IllegalTransitionError(ConflictError):
    """The subscription's status does not allow what was asked."""

    code = "illegal_transition"

    def __init__(self, subscription_id: str, status: str, allowed: str) -> None:
        super().__init__(f"{subscription_id} is {status}; {allowed}")
        self.subscription_id = subscription_id
        self.status = status


class NotAllowedError(HookkeeperError):
    """An application asks for more than its tenant has granted."""

    code = "no_consent"


class StaleVersionError(HookkeeperError):
    """If-Match names a version that is no longer the present one."""

    def __init__(self, subscription_id: str, version: int) -> None:
        super().__init__(f"{subscription_id} is at version {version}")
        self.version = version


class LimitedError(HookkeeperError):
    """It was asked too often; from `again_at` on it may be asked once more."""

    def __init__(self, detail: str, *, again_at: datetime) -> None:
        super().__init__(detail)
        self.detail = detail
        self.again_at = again_at


class OwnFaultError(HookkeeperError):
    """A fault of Hookkeeper's own side: retried, alarmed, never counted against an endpoint."""


class SecretUnavailableError(OwnFaultError):
    """A signing secret is missing or cannot be opened; nothing is sent unsigned."""
