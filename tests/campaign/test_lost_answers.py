"""One story over the adapters of DynamoDB: a lost answer looks like a lost guard, and must change nothing."""

from collections import Counter
from typing import Any

from hookkeeper.adapters.dynamodb_events import DynamoDBEvents
from hookkeeper.adapters.dynamodb_fuse import DynamoDBFuse
from hookkeeper.adapters.dynamodb_ledger import DynamoDBLedger
from hookkeeper.adapters.dynamodb_mailboxes import DynamoDBMailboxes
from hookkeeper.domain.health import Health, Streak
from hookkeeper.domain.mailbox import MailRules
from hookkeeper.domain.outcome import Answer, Outcome
from hookkeeper.domain.signature import Secret
from hookkeeper.domain.subscription import Status
from hookkeeper.domain.tenancy import SubscriptionKey
from hookkeeper.usecases.notify import NotifyPorts, notify
from moto import mock_aws
from typing_extensions import override

from tests.builders import HOUR, MINUTE, NOW, a_health, a_key, a_subscription, an_event
from tests.contracts.conftest import AT_ONCE, TABLES, Aws
from tests.contracts.stores import over_dynamodb
from tests.core import Core
from tests.fakes import FakeMailer, FakeOperatorBus
from tests.faults import lose_every_answer

KEY = a_key()
WRITES = ("PutItem", "UpdateItem", "DeleteItem", "TransactWriteItems", "BatchWriteItem")
DOWN, GONE, WELL = (Answer(status_code=code, latency_ms=50) for code in (500, 404, 200))


class TableCore(Core):
    """The core with what lives in DynamoDB there; queues, archive, secrets and endpoints stay in memory."""

    def __init__(self, aws: Aws) -> None:
        super().__init__()
        client = aws.client("dynamodb")
        self.stores = over_dynamodb(aws)
        self.ledger = DynamoDBLedger(  # type: ignore[assignment]
            client,
            deliveries_table=aws.table("Deliveries"),
            subscriptions_table=aws.table("Subscriptions"),
            backoff=AT_ONCE,
        )
        self.subscriptions = self.stores.subscriptions  # type: ignore[assignment]
        self.health_store = self.stores.health  # type: ignore[assignment]
        self.recoveries = self.stores.recoveries  # type: ignore[assignment]
        self.notices = self.stores.notices  # type: ignore[assignment]
        self.fuse = DynamoDBFuse(client, access_table=aws.table("Access"), backoff=AT_ONCE)  # type: ignore[assignment]
        self.events = DynamoDBEvents(client, events_table=aws.table("Events"), backoff=AT_ONCE)  # type: ignore[assignment]
        self.mailboxes = DynamoDBMailboxes(client, notices_table=aws.table("Notices"), backoff=AT_ONCE)
        self.stores.have(
            a_subscription(),
            a_health(
                streaks={Outcome.PERMANENT: Streak(3, NOW - 2 * HOUR)},
                consecutive_failures=3,
                first_failure_at=NOW - 2 * HOUR,
                last_attempt_at=NOW,
            ),
        )
        self.secrets.create(KEY, Secret(bytes(24)), version=1, now=NOW)

    @override
    def health(self, key: SubscriptionKey) -> Health:
        return self.stores.standing(key).health

    def tell(self) -> None:
        notify(
            self.notices.of(KEY, limit=9),
            now=self.now,
            rules=MailRules(),
            console_url="https://console.example",
            ports=NotifyPorts(
                notices=self.notices,
                mailboxes=self.mailboxes,
                mailer=FakeMailer(self.world),
                bus=FakeOperatorBus(self.world),
                ids=self.ids,
            ),
        )


def story(core: TableCore) -> None:
    """Warned, suspended, told, opened and closed, mended, given back: every guarded write there is."""
    _says(core, GONE)
    for number in (1, 2):
        core.deliver(core.archived(KEY, an_event(number)))
        core.tell()
        core.later(MINUTE)
    assert core.stores.standing(KEY).subscription.status is Status.SUSPENDED
    for number in (3, 4, 5):
        core.archived(KEY, an_event(number))
        core.later(MINUTE)
    _says(core, WELL)
    _reenable(core)
    _says(core, DOWN)
    core.deliver(*(core.archived(KEY, an_event(number)) for number in range(6, 11)))
    assert core.health(KEY).circuit.is_open
    _says(core, WELL)
    core.later(MINUTE)
    core.deliver(core.archived(KEY, an_event(11)))
    assert not core.health(KEY).circuit.is_open
    assert core.take_up(KEY).mine
    _give_back(core)
    core.sweep()
    core.tell()
    assert {dict(request.headers)["webhook-id"] for request in core.world.requests} == {
        an_event(number).id for number in range(1, 12)
    }


def _says(core: TableCore, answer: Answer) -> None:
    core.answer = lambda _: answer


def _reenable(core: TableCore) -> None:
    locked = core.lock(KEY)
    assert locked.mine
    assert locked.recovery is not None
    assert core.activate(KEY, locked.recovery)
    _give_back(core)


def _give_back(core: TableCore) -> None:
    """Slice by slice, to the recovery's end."""
    for _ in range(20):
        lock = core.health(KEY).recovery
        if not lock.held:
            return
        core.slice(KEY)
        _deliver_all(core)
        core.later(MINUTE)
    raise AssertionError("the recovery does not end")


def _deliver_all(core: TableCore) -> None:
    for queue in ("deliveries", "backfill"):
        if parcels := core.take(queue):
            core.deliver(*parcels)


def played(*, losing: bool) -> tuple[dict[str, Any], int]:
    """All that the story left behind, and how many answers were lost in it."""
    with mock_aws():
        aws = Aws()
        core = TableCore(aws)
        lost = lose_every_answer(aws.client("dynamodb"), WRITES) if losing else Counter[str]()
        story(core)
        left: dict[str, Any] = {name: sorted(map(str, aws.items(name))) for name in TABLES}
    sent = [dict(request.headers)["webhook-id"] for request in core.world.requests]
    return {**left, "sent": sent, "mails": core.world.mails, "bus": core.world.bus_events}, lost.total()


def test_a_story_in_which_the_answer_of_every_write_is_lost_is_the_same_story() -> None:
    expected, _ = played(losing=False)
    left, lost = played(losing=True)
    assert lost > 40
    for name, value in expected.items():
        assert left[name] == value, name
