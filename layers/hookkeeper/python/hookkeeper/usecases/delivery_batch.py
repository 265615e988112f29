"""A batch of deliveries in hand: what was read, what was asked of whom, and what became of each message."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from hookkeeper.domain.arrival import Arrival
from hookkeeper.domain.config import Margins, RuntimeConfig
from hookkeeper.domain.consent import Consent
from hookkeeper.domain.delivery import Delivery, DeliveryStatus, Lane, Parcel
from hookkeeper.domain.health import Health, Policy
from hookkeeper.domain.outcome import Answer, Outcome
from hookkeeper.domain.tenancy import DeliveryKey, SubscriptionKey
from hookkeeper.ports import (
    Archive,
    Fuse,
    HealthStore,
    Ids,
    Lanes,
    Ledger,
    Notices,
    Readings,
    Recoveries,
    Secrets,
    Sender,
    Standing,
    Subscriptions,
)


class Fate(StrEnum):
    """What becomes of the message."""

    DONE = "done"
    AGAIN_NOW = "again_now"
    """Hand back at once: nothing was tried, for want of time."""
    AGAIN_LATER = "again_later"
    """Hand back for when it becomes visible again: our own side failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """How one message ended, for the log and the metrics."""

    parcel: Parcel
    fate: Fate
    arrival: Arrival | None = None
    outcome: Outcome | None = None
    answer: Answer | None = None
    status: DeliveryStatus | None = None
    counted: bool = False
    error: Exception | None = None
    """What our own side raised while this message was dealt with; it is handed back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliverPorts:
    """All that a delivery needs from outside."""

    ledger: Ledger
    health: HealthStore
    fuse: Fuse
    subscriptions: Subscriptions
    recoveries: Recoveries
    secrets: Secrets
    archive: Archive
    sender: Sender
    lanes: Lanes
    notices: Notices
    ids: Ids
    spread: Callable[[], float]
    """A number in [-1, 1], anew each time: what moves a retry's gap."""


@dataclass(slots=True, eq=False)
class Case:
    """One message, what the ledger says of its delivery, and how far it has come."""

    parcel: Parcel
    delivery: Delivery | None
    trial: bool = False
    answer: Answer | None = None
    report: Report | None = None

    @property
    def subscription_key(self) -> SubscriptionKey:
        return self.parcel.key.subscription

    @property
    def by_hand(self) -> bool:
        """Whether a person asked for this one delivery: such an attempt counts for nothing (SPEC §9)."""
        return self.parcel.lane is Lane.REPLAY and self.parcel.recovery_id is None

    def done(
        self,
        arrival: Arrival,
        *,
        status: DeliveryStatus | None = None,
        outcome: Outcome | None = None,
        counted: bool = False,
    ) -> None:
        """The message may go."""
        self.report = Report(
            parcel=self.parcel,
            fate=Fate.DONE,
            arrival=arrival,
            outcome=outcome,
            answer=self.answer,
            status=status,
            counted=counted,
        )

    def again(self, fate: Fate, *, error: Exception | None = None) -> None:
        """The message comes back."""
        self.report = Report(parcel=self.parcel, fate=fate, answer=self.answer, error=error)


@dataclass(slots=True, eq=False)
class Batch:
    """Every case, with the truth as it was read and the ports to act by.

    `errors` are what our own side raised after the messages were dealt with: told, and made good by the
    next batch or the sweep.
    """

    cases: Sequence[Case]
    standings: dict[SubscriptionKey, Standing]
    unread: frozenset[DeliveryKey]
    consents: Mapping[SubscriptionKey, Consent]
    now: datetime
    config: RuntimeConfig
    margins: Margins
    ports: DeliverPorts
    opened: list[SubscriptionKey] = field(default_factory=list)
    closed: list[SubscriptionKey] = field(default_factory=list)
    latched: bool = False
    errors: list[Exception] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        parcels: Sequence[Parcel],
        readings: Readings,
        *,
        now: datetime,
        config: RuntimeConfig,
        margins: Margins,
        ports: DeliverPorts,
    ) -> "Batch":
        return cls(
            cases=[Case(parcel, readings.deliveries.get(parcel.key)) for parcel in parcels],
            standings=dict(readings.standings),
            unread=readings.unread,
            consents=readings.consents,
            now=now,
            config=config,
            margins=margins,
            ports=ports,
        )

    def standing(self, case: Case) -> Standing:
        """The subscription and health of a case that was judged to be there."""
        return self.standings[case.subscription_key]

    def health(self, case: Case) -> Health:
        return self.standing(case).health

    def policy(self, case: Case) -> Policy:
        return self.config.policy_of(self.standing(case).subscription)

    def reports(self) -> Sequence[Report]:
        """One for each message, in order; one that nobody dealt with comes back."""
        return [
            case.report or Report(parcel=case.parcel, fate=Fate.AGAIN_LATER, answer=case.answer)
            for case in self.cases
        ]

    def by_subscription(self) -> Mapping[SubscriptionKey, Sequence[Case]]:
        grouped: dict[SubscriptionKey, list[Case]] = {}
        for case in self.cases:
            grouped.setdefault(case.subscription_key, []).append(case)
        return grouped

    @contextmanager
    def sparing_neighbours(self, case: Case) -> Iterator[None]:
        """Whatever goes wrong inside is this message's alone: it comes back, and the others go on."""
        try:
            yield
        except Exception as error:  # noqa: BLE001  # one message's edge: it is retried, and the error told
            case.again(Fate.AGAIN_LATER, error=error)

    @contextmanager
    def sparing_the_rest(self) -> Iterator[None]:
        """Whatever goes wrong inside is told, and does not hand back messages that were dealt with."""
        try:
            yield
        except Exception as error:  # noqa: BLE001  # the batch's edge: the next one, or the sweep, does it
            self.errors.append(error)
