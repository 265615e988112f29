"""Credentials that reach one tenant's items in one mode, and the session whose clients sign with them.

A client is built once; which tenant it may touch is decided call by call. Clients of a session that has
not been told a scope cannot sign at all: a query that forgets the tenant fails.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
import botocore.session
from botocore.credentials import Credentials, ReadOnlyCredentials
from cachetools import LRUCache
from typing_extensions import override

from hookkeeper.domain.errors import OwnFaultError
from hookkeeper.domain.tenancy import Scope

CACHED_SCOPES = 1000
RENEWED_BEFORE = timedelta(minutes=5)
"""How long before their end credentials are no longer used: longer than any request takes."""


@dataclass(frozen=True, slots=True)
class _Lent:
    keys: ReadOnlyCredentials
    until: datetime


class TenantSession:
    """`enter` a scope, and every client of this session works under the role as tagged with it.

    For one request at a time, as Lambda runs them; threads of that request share its scope.
    """

    def __init__(
        self, sts: Any, *, role_arn: str, clock: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._sts = sts
        self._role_arn = role_arn
        self._clock = clock
        self._lent = LRUCache[Scope, _Lent](CACHED_SCOPES)
        self._scope: Scope | None = None

    def enter(self, scope: Scope) -> None:
        self._scope = scope

    def leave(self) -> None:
        """Until the next `enter`, nothing signs."""
        self._scope = None

    def client(self, service: str) -> Any:
        """A client whose every call is signed for the scope entered last."""
        session = botocore.session.get_session()
        session._credentials = _Swapped(self.keys)  # type: ignore[attr-defined]  # no other seam swaps keys
        return boto3.Session(botocore_session=session).client(service)  # type: ignore[call-overload]

    def keys(self) -> ReadOnlyCredentials:
        """The keys of the scope entered. Raises OwnFaultError outside of any."""
        scope = self._scope
        if scope is None:
            raise OwnFaultError("no tenant has been entered")
        lent = self._lent.get(scope)
        if lent is None or self._clock() >= lent.until - RENEWED_BEFORE:
            lent = self._assume(scope)
            self._lent[scope] = lent
        return lent.keys

    def _assume(self, scope: Scope) -> _Lent:
        answer = self._sts.assume_role(
            RoleArn=self._role_arn,
            RoleSessionName=f"{scope.mode}.{scope.tenant_id}"[:64],
            Tags=[{"Key": "tenant", "Value": scope.tenant_id}, {"Key": "mode", "Value": str(scope.mode)}],
        )
        keys = answer["Credentials"]
        frozen = ReadOnlyCredentials(keys["AccessKeyId"], keys["SecretAccessKey"], keys["SessionToken"])
        return _Lent(frozen, keys["Expiration"])


class _Swapped(Credentials):
    """What botocore's signer asks for keys at each request."""

    def __init__(self, keys: Callable[[], ReadOnlyCredentials]) -> None:
        super().__init__("", "", "")
        self._keys = keys

    @override
    def get_frozen_credentials(self) -> ReadOnlyCredentials:
        return self._keys()
