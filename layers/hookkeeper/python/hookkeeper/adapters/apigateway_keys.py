"""What API Gateway counts calls by: one key of its own for each owner, on one of the stage's usage plans."""

from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from hookkeeper.adapters.dynamodb import error_code
from hookkeeper.domain.access import gateway_key
from hookkeeper.domain.errors import OwnFaultError

PAGE = 500
"""The most that API Gateway lists at once."""

_THERE = "ConflictException"


class ApiGatewayKeys:
    """The GatewayKeys port. A plan goes by its name, `<API's id>-<plan>`: its id comes after `api` does."""

    def __init__(self, client: Any, *, api_id: str) -> None:
        self._client = client
        self._api_id = api_id
        self._plans: dict[str, str] = {}

    def ensure(self, owner: str, *, plan: str) -> None:
        try:
            self._put_on(self._plan(plan), self._key(owner))
        except (ClientError, BotoCoreError) as error:
            raise OwnFaultError(f"API Gateway did not make the key of {owner}: {error}") from error

    def _key(self, owner: str) -> str:
        """The id of the owner's key, made now where there is none."""
        name = gateway_key(self._api_id, owner)
        if (there := self._found("get_api_keys", name, nameQuery=name)) is not None:
            return there
        try:
            made = self._client.create_api_key(
                name=name, value=name, description=f"Counts the calls of {owner}", enabled=True
            )
        except ClientError as error:
            if error_code(error) != _THERE:
                raise
            there = self._found("get_api_keys", name, nameQuery=name)
            if there is None:
                raise
            return there
        return str(made["id"])

    def _put_on(self, plan_id: str, key_id: str) -> None:
        """A key that is on a plan of this API already stays there: an operator may have moved it."""
        try:
            self._client.create_usage_plan_key(usagePlanId=plan_id, keyId=key_id, keyType="API_KEY")
        except ClientError as error:
            if error_code(error) != _THERE:
                raise

    def _plan(self, plan: str) -> str:
        if plan not in self._plans:
            found = self._found("get_usage_plans", f"{self._api_id}-{plan}")
            if found is None:
                raise OwnFaultError(f"API Gateway has no usage plan {plan} of {self._api_id}")
            self._plans[plan] = found
        return self._plans[plan]

    def _found(self, listing: str, name: str, **more: str) -> str | None:
        """The id of what has exactly this name in a listing, read to its end."""
        pages = self._client.get_paginator(listing).paginate(PaginationConfig={"PageSize": PAGE}, **more)
        return next(
            (str(each["id"]) for page in pages for each in page["items"] if each["name"] == name), None
        )
