"""Every refusal as a page that says what happened and where to go on, in one place."""

from aws_lambda_powertools import Logger
from aws_lambda_powertools.event_handler import APIGatewayRestResolver, Response
from aws_lambda_powertools.event_handler.exceptions import NotFoundError as NoSuchRouteError
from entrance import remembering
from hookkeeper.domain.errors import (
    ConflictError,
    HookkeeperError,
    InvalidInputError,
    LimitedError,
    NotFoundError,
    OwnFaultError,
    StaleVersionError,
)
from pages import refusal, wants_sign_in
from visit import MOUNT, RefusedError, SignInNeededError, Visit

STALE = "Somebody else has changed this meanwhile. Go back, reload, and look before you change it."
OURS = "Something that we need cannot be reached. Nothing is lost; try again in a moment."
NOWHERE = "There is no such page, or it is not yours to see."


def register(app: APIGatewayRestResolver, logger: Logger) -> "Refusals":
    """Let every error of a route end as a page; what nobody foresaw is logged, and told as 500."""
    refusals = Refusals(app, logger)
    app.exception_handler(SignInNeededError)(refusals.sign_in)
    app.exception_handler(HookkeeperError)(refusals.refused)
    app.exception_handler(Exception)(refusals.unforeseen)
    app.not_found(refusals.no_such_page)
    return refusals


class Refusals:
    """The handlers, bound to the app whose visit they answer."""

    def __init__(self, app: APIGatewayRestResolver, logger: Logger) -> None:
        self._app = app
        self._logger = logger

    def sign_in(self, _: SignInNeededError) -> Response[str]:
        return wants_sign_in(self._visit, headers=remembering(self._visit))

    def refused(self, error: HookkeeperError) -> Response[str]:
        if isinstance(error, OwnFaultError):
            self._logger.error("console.own_fault", exc_info=error)
        status, sentence = _told(error)
        return refusal(self._visit, status, sentence, back=_back(self._visit))

    def unforeseen(self, error: Exception) -> Response[str]:
        self._logger.error("console.failed", exc_info=error)
        return refusal(self._visit, 500, "Something went wrong on our side, and we have been told.")

    def no_such_page(self, _: NoSuchRouteError) -> Response[str]:
        return refusal(self._visit, 404, NOWHERE)

    def route_of(self, visit: Visit) -> str | None:
        """The route's pattern, for logs: a path's own words may be anything."""
        path = MOUNT if visit.path == "/" else f"{MOUNT}{visit.path}"
        routes = self._app._static_routes + self._app._dynamic_routes
        return next((r.path for r in routes if r.method == visit.method and r.rule.match(path)), None)

    @property
    def _visit(self) -> Visit:
        visit: Visit = self._app.context["visit"]
        return visit


def _told(error: HookkeeperError) -> tuple[int, str]:
    match error:
        case RefusedError():
            return error.status, str(error)
        case NotFoundError():
            return 404, NOWHERE
        case InvalidInputError():
            return 422, f"{error.detail[:1].upper()}{error.detail[1:]}."
        case LimitedError():
            return 429, f"{error.detail[:1].upper()}{error.detail[1:]}."
        case StaleVersionError():
            return 412, STALE
        case ConflictError():
            return 409, f"{error}."
    return 503, OURS


def _back(visit: Visit) -> str:
    """The page that a form stood on, for the link back: the address without the deed."""
    return visit.path.rpartition("/")[0] or "/" if visit.method == "POST" else "/"
