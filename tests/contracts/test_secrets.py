"""Nothing is signed by a secret of another, nothing goes unsigned, and a rotation is in force at once."""

import threading
from datetime import timedelta
from typing import Any

import pytest
from hookkeeper.adapters.kms_secrets import KmsSecrets
from hookkeeper.domain.errors import SecretUnavailableError
from hookkeeper.domain.tenancy import Mode, SubscriptionKey
from hookkeeper.ports import Secrets

from tests.builders import HOUR, NOW, a_key, a_scope, a_secret
from tests.contracts.conftest import Aws
from tests.fakes import FakeSecrets, World
from tests.faults import counted, lose_answer, refuse

TICK = timedelta(microseconds=1)
DAY = 24 * HOUR


class Kms:
    """Containers that share table and key; `later` moves the clock of every cache."""

    def __init__(self, aws: Aws) -> None:
        self.aws = aws
        self.dynamodb, self.client = aws.client("dynamodb"), aws.client("kms")
        self.key_id = self.client.create_key()["KeyMetadata"]["KeyId"]
        self.now = 0.0

    def container(self) -> KmsSecrets:
        return KmsSecrets(
            self.dynamodb,
            self.client,
            secrets_table=self.aws.table("Secrets"),
            kms_key_id=self.key_id,
            timer=lambda: self.now,
        )

    def item(self, key: SubscriptionKey, version: int) -> dict[str, Any]:
        wanted = f"#sub#{key.subscription_id}", f"v#{version:06d}"
        return next(
            item
            for item in self.aws.items("Secrets")
            if item["pk"]["S"].startswith(f"{key.scope.tenant_id}#{key.scope.mode}#")
            and (item["pk"]["S"].endswith(wanted[0]) and item["sk"]["S"] == wanted[1])
        )

    def put(self, item: dict[str, Any]) -> None:
        self.dynamodb.put_item(TableName="Secrets", Item=item)


@pytest.fixture
def kms(aws: Aws) -> Kms:
    return Kms(aws)


@pytest.fixture(params=["fake", "kms"])
def secrets(request: pytest.FixtureRequest, world: World) -> Secrets:
    if request.param == "fake":
        return FakeSecrets(world)
    kms: Kms = request.getfixturevalue("kms")
    return kms.container()


def rotated(secrets: Secrets, old_ref: str, version: int, *, until: Any) -> str:
    """A rotation in its right order: the successor, the old one's overlap; then the subscription names it."""
    ref = secrets.create(a_key(), a_secret(version), version=version, now=NOW)
    secrets.retire(a_key(), old_ref, until=until)
    return ref


def test_a_secret_signs_under_the_ref_it_was_given(secrets: Secrets) -> None:
    ref = secrets.create(a_key(), a_secret(1), version=1, now=NOW)
    assert ref == f"kms:{a_key().subscription_id}/versions/1"
    assert list(secrets.signing(a_key(), ref, now=NOW)) == [a_secret(1)]


def test_the_replaced_secret_signs_second_until_its_overlap_ends(secrets: Secrets) -> None:
    first = secrets.create(a_key(), a_secret(1), version=1, now=NOW)
    second = rotated(secrets, first, 2, until=NOW + DAY)
    assert list(secrets.signing(a_key(), second, now=NOW)) == [a_secret(2), a_secret(1)]
    assert list(secrets.signing(a_key(), second, now=NOW + DAY - TICK)) == [a_secret(2), a_secret(1)]
    assert list(secrets.signing(a_key(), second, now=NOW + DAY)) == [a_secret(2)]


def test_a_rotation_without_overlap_drops_the_old_secret_at_once(secrets: Secrets) -> None:
    first = secrets.create(a_key(), a_secret(1), version=1, now=NOW)
    secrets.signing(a_key(), first, now=NOW)
    second = rotated(secrets, first, 2, until=NOW)
    assert list(secrets.signing(a_key(), second, now=NOW)) == [a_secret(2)]


def test_each_rotation_sets_a_window_of_its_own(secrets: Secrets) -> None:
    first = secrets.create(a_key(), a_secret(1), version=1, now=NOW)
    second = rotated(secrets, first, 2, until=NOW + DAY)
    third = rotated(secrets, second, 3, until=NOW + 54 * HOUR)
    assert list(secrets.signing(a_key(), third, now=NOW + 30 * HOUR)) == [a_secret(3), a_secret(2)]


def test_while_the_subscription_still_names_it_a_retired_secret_signs(secrets: Secrets) -> None:
    first = secrets.create(a_key(), a_secret(1), version=1, now=NOW)
    secrets.create(a_key(), a_secret(2), version=2, now=NOW)
    secrets.retire(a_key(), first, until=NOW)
    assert list(secrets.signing(a_key(), first, now=NOW + DAY)) == [a_secret(1)]


def test_a_version_that_never_came_into_use_signs_nothing(secrets: Secrets) -> None:
    first = secrets.create(a_key(), a_secret(1), version=1, now=NOW)
    secrets.create(a_key(), a_secret(2), version=2, now=NOW)
    third = rotated(secrets, first, 3, until=NOW + DAY)
    assert list(secrets.signing(a_key(), third, now=NOW)) == [a_secret(3), a_secret(1)]


@pytest.mark.parametrize(
    "ref",
    ["kms:{id}/versions/2", "kms:{other}/versions/1", "kms:{id}/versions/", "kms:{id}/versions/x", "", "x"],
)
def test_a_ref_that_leads_nowhere_is_our_own_fault(secrets: Secrets, ref: str) -> None:
    secrets.create(a_key(), a_secret(1), version=1, now=NOW)
    secrets.create(a_key(2), a_secret(2), version=1, now=NOW)
    ref = ref.format(id=a_key().subscription_id, other=a_key(2).subscription_id)
    with pytest.raises(SecretUnavailableError):
        secrets.signing(a_key(), ref, now=NOW)


@pytest.mark.parametrize("scope", [a_scope("other"), a_scope(mode=Mode.TEST)], ids=["tenant", "mode"])
def test_another_scopes_subscription_of_the_same_id_has_no_secret_here(secrets: Secrets, scope: Any) -> None:
    ref = secrets.create(a_key(), a_secret(1), version=1, now=NOW)
    with pytest.raises(SecretUnavailableError):
        secrets.signing(a_key(scope=scope), ref, now=NOW)


# ── as it is sealed ──────────────────────────────────────────────────────────────────────────────


def test_a_version_that_is_taken_is_never_overwritten(kms: Kms) -> None:
    secrets = kms.container()
    first = secrets.create(a_key(), a_secret(1), version=1, now=NOW)
    second = secrets.create(a_key(), a_secret(2), version=1, now=NOW)
    assert (first[-1], second[-1]) == ("1", "2")
    assert list(secrets.signing(a_key(), first, now=NOW)) == [a_secret(1)]
    assert list(secrets.signing(a_key(), second, now=NOW)) == [a_secret(2)]


@pytest.mark.parametrize("lost", ["PutItem"])
def test_a_lost_answer_takes_no_second_version(kms: Kms, lost: str) -> None:
    secrets = kms.container()
    secrets.create(a_key(2), a_secret(9), version=1, now=NOW)
    lose_answer(kms.dynamodb, lost)
    assert secrets.create(a_key(), a_secret(1), version=1, now=NOW).endswith("/1")


def test_a_data_key_whose_answer_was_lost_is_the_one_that_is_used(kms: Kms) -> None:
    lose_answer(kms.dynamodb, "PutItem")
    ref = kms.container().create(a_key(), a_secret(1), version=1, now=NOW)
    assert list(kms.container().signing(a_key(), ref, now=NOW)) == [a_secret(1)]


def test_no_secret_lies_in_the_table_in_clear(kms: Kms) -> None:
    kms.container().create(a_key(), a_secret(65), version=1, now=NOW)
    assert a_secret(65).key not in repr(kms.aws.items("Secrets")).encode()
    assert len(kms.aws.items("Secrets")) == 2


@pytest.mark.parametrize(
    "source, target",
    [
        ((a_key(1), 1), (a_key(2), 1)),
        ((a_key(1), 1), (a_key(1), 2)),
        ((a_key(1), 1), (a_key(1, a_scope("other")), 1)),
        ((a_key(1), 1), (a_key(1, a_scope(mode=Mode.TEST)), 1)),
    ],
    ids=["subscription", "version", "tenant", "mode"],
)
def test_a_ciphertext_that_was_moved_does_not_open(kms: Kms, source: Any, target: Any) -> None:
    for key, version in (source, target):
        kms.container().create(key, a_secret(version), version=version, now=NOW)
    kms.put({**kms.item(*target), "sealed": kms.item(*source)["sealed"]})
    key, version = target
    with pytest.raises(SecretUnavailableError):
        kms.container().signing(key, f"kms:{key.subscription_id}/versions/{version}", now=NOW)


def test_a_tenants_data_key_does_not_open_in_anothers_row(kms: Kms) -> None:
    other = a_key(1, a_scope("other"))
    kms.container().create(a_key(), a_secret(1), version=1, now=NOW)
    ref = kms.container().create(other, a_secret(2), version=1, now=NOW)
    keys = {item["pk"]["S"]: item for item in kms.aws.items("Secrets") if item["sk"]["S"] == "datakey"}
    stolen = keys["acme#live#datakey"]["wrapped"]
    kms.put({**keys["other#live#datakey"], "wrapped": stolen})
    with pytest.raises(SecretUnavailableError):
        kms.container().signing(other, ref, now=NOW)


def test_a_bent_ciphertext_does_not_open(kms: Kms) -> None:
    ref = kms.container().create(a_key(), a_secret(1), version=1, now=NOW)
    item = kms.item(a_key(), 1)
    sealed = bytearray(item["sealed"]["B"])
    sealed[-1] ^= 1
    kms.put({**item, "sealed": {"B": bytes(sealed)}})
    with pytest.raises(SecretUnavailableError):
        kms.container().signing(a_key(), ref, now=NOW)


@pytest.mark.parametrize(
    "service, operation, code",
    [
        ("kms", "Decrypt", "AccessDeniedException"),
        ("kms", "Decrypt", "ThrottlingException"),
        ("kms", "Decrypt", "KMSInvalidStateException"),
        ("dynamodb", "Query", "ProvisionedThroughputExceededException"),
        ("dynamodb", "GetItem", "AccessDeniedException"),
    ],
)
def test_whatever_refuses_is_our_own_fault_and_is_not_remembered(
    kms: Kms, service: str, operation: str, code: str
) -> None:
    ref = kms.container().create(a_key(), a_secret(1), version=1, now=NOW)
    cold = kms.container()
    refuse(kms.aws.client(service), operation, code=code)
    with pytest.raises(SecretUnavailableError):
        cold.signing(a_key(), ref, now=NOW)
    assert list(cold.signing(a_key(), ref, now=NOW)) == [a_secret(1)]


@pytest.mark.parametrize("operation", ["GenerateDataKey", "Decrypt"])
def test_a_secret_that_cannot_be_sealed_is_not_created(kms: Kms, operation: str) -> None:
    if operation == "Decrypt":
        kms.container().create(a_key(2), a_secret(2), version=1, now=NOW)
    before = kms.aws.items("Secrets")
    refuse(kms.client, operation, code="AccessDeniedException")
    with pytest.raises(SecretUnavailableError):
        kms.container().create(a_key(), a_secret(1), version=1, now=NOW)
    assert kms.aws.items("Secrets") == before


def test_a_deleted_secret_is_our_own_fault(kms: Kms) -> None:
    ref = kms.container().create(a_key(), a_secret(1), version=1, now=NOW)
    item = kms.item(a_key(), 1)
    kms.dynamodb.delete_item(TableName="Secrets", Key={"pk": item["pk"], "sk": item["sk"]})
    with pytest.raises(SecretUnavailableError):
        kms.container().signing(a_key(), ref, now=NOW)


def test_ten_thousand_deliveries_read_their_secret_once(kms: Kms) -> None:
    ref = kms.container().create(a_key(), a_secret(1), version=1, now=NOW)
    table, keys = counted(kms.dynamodb), counted(kms.client)
    container = kms.container()
    for _ in range(10_000):
        container.signing(a_key(), ref, now=NOW)
    assert (table, keys) == ({"Query": 1, "GetItem": 1}, {"Decrypt": 1})


def test_a_thousand_endpoints_of_a_tenant_are_one_call_to_kms(kms: Kms) -> None:
    writer = kms.container()
    refs = [writer.create(a_key(n), a_secret(1), version=1, now=NOW) for n in range(50)]
    keys = counted(kms.client)
    container = kms.container()
    for n, ref in enumerate(refs):
        container.signing(a_key(n), ref, now=NOW)
    assert keys == {"Decrypt": 1}


def test_after_an_hour_a_secret_is_read_again(kms: Kms) -> None:
    ref = kms.container().create(a_key(), a_secret(1), version=1, now=NOW)
    container = kms.container()
    container.signing(a_key(), ref, now=NOW)
    table = counted(kms.dynamodb)
    kms.now = 3599
    container.signing(a_key(), ref, now=NOW)
    assert table == {}
    kms.now = 3601
    container.signing(a_key(), ref, now=NOW)
    assert table["Query"] == 1


def test_a_warm_container_signs_with_the_new_secret_as_soon_as_it_is_named(kms: Kms) -> None:
    api, warm = kms.container(), kms.container()
    first = api.create(a_key(), a_secret(1), version=1, now=NOW)
    warm.signing(a_key(), first, now=NOW)
    second = rotated(api, first, 2, until=NOW + DAY)
    assert list(warm.signing(a_key(), second, now=NOW)) == [a_secret(2), a_secret(1)]
    third = rotated(api, second, 3, until=NOW)
    assert list(warm.signing(a_key(), third, now=NOW)) == [a_secret(3), a_secret(1)]


@pytest.mark.usefixtures("one_at_a_time")
def test_containers_that_make_a_tenants_first_data_key_at_once_use_the_same(kms: Kms) -> None:
    kms.aws.table("Secrets")
    refs: dict[int, str] = {}
    barrier = threading.Barrier(6)

    def create(n: int) -> None:
        container = kms.container()
        barrier.wait()
        refs[n] = container.create(a_key(n), a_secret(n + 1), version=1, now=NOW)

    threads = [threading.Thread(target=create, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    cold = kms.container()
    assert [list(cold.signing(a_key(n), refs[n], now=NOW)) for n in range(6)] == [
        [a_secret(n + 1)] for n in range(6)
    ]
