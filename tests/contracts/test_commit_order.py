"""Health counts in the order of its commits: a success ends what stands before it and nothing after (F37)."""

from hookkeeper.adapters.dynamodb_expressions import update_item
from hookkeeper.adapters.dynamodb_health import effect_update
from hookkeeper.adapters.dynamodb_keys import health_key
from hookkeeper.domain.outcome import Outcome
from hookkeeper.ports import HealthEffect

from tests.builders import NOW, a_key, a_subscription
from tests.contracts.conftest import AT_ONCE, Aws
from tests.contracts.stores import over_dynamodb
from tests.fakes import affected

FAILURE = HealthEffect(epoch=1, outcome=Outcome.RETRYABLE, at=NOW, first_failure_at=NOW)
SUCCESS = HealthEffect(epoch=1, outcome=Outcome.SUCCESS, at=NOW)


def test_f37_of_eleven_failures_and_a_success_those_count_that_were_committed_after_it(aws: Aws) -> None:
    stores, client, table = over_dynamodb(aws), aws.client("dynamodb"), aws.table("Subscriptions")
    for place in range(12):
        key = a_key(place + 1)
        expected = stores.have(a_subscription(key=key)).health
        for n in range(12):
            effect = SUCCESS if n == place else FAILURE
            assert update_item(client, table, health_key(key), effect_update(key, effect), AT_ONCE)
            expected = affected(expected, effect)
        health = stores.standing(key).health
        assert health.consecutive_failures == 11 - place
        assert health == expected, "and the fake counts as the table does"
