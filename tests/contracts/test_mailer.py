"""A mail is taken, refused for good, or put off; never in between."""

from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError, ReadTimeoutError
from hookkeeper.adapters.ses_mailer import SesMailer
from hookkeeper.ports import Mail, MailDeferredError, Mailer, MailRefusedError

from tests.contracts.conftest import Aws
from tests.fakes import FakeMailer, World
from tests.faults import answer, counted, refuse

SENDER = "webhooks@provider.example"
MAIL = Mail(
    to="owner@customer.example",
    subject="Webhook endpoint suspended",
    text="It failed.",
    html="<p>It failed.</p>",
    tags={"notice": "sub_1.suspended.epoch-1", "empty": ""},
)


@pytest.fixture
def adapter(aws: Aws) -> SesMailer:
    ses = aws.client("sesv2")
    ses.create_email_identity(EmailIdentity=SENDER)
    ses.create_configuration_set(ConfigurationSetName="hookkeeper")
    return SesMailer(ses, sender=SENDER, configuration_set="hookkeeper")


@pytest.fixture(params=["fake", "ses"])
def mailer(request: pytest.FixtureRequest, world: World) -> Mailer:
    if request.param == "fake":
        return FakeMailer(world)
    adapter: SesMailer = request.getfixturevalue("adapter")
    return adapter


def test_each_mail_has_an_id_of_its_own(mailer: Mailer) -> None:
    ids = [mailer.send(MAIL), mailer.send(MAIL)]
    assert all(ids)
    assert ids[0] != ids[1]


def asked(aws: Aws) -> list[dict[str, Any]]:
    """What SES is asked from now on, each call answered."""
    calls: list[dict[str, Any]] = []

    def note(params: dict[str, Any], **_: Any) -> None:
        calls.append(params)

    aws.client("sesv2").meta.events.register("provide-client-params.sesv2.SendEmail", note)
    return calls


def test_ses_gets_sender_address_both_bodies_and_tags_it_takes(aws: Aws, adapter: SesMailer) -> None:
    calls = asked(aws)
    adapter.send(MAIL)
    (call,) = calls
    assert call["FromEmailAddress"] == SENDER
    assert call["Destination"] == {"ToAddresses": [MAIL.to]}
    assert call["ConfigurationSetName"] == "hookkeeper"
    body = call["Content"]["Simple"]["Body"]
    assert (body["Text"]["Data"], body["Html"]["Data"]) == (MAIL.text, MAIL.html)
    assert call["EmailTags"] == [{"Name": "notice", "Value": "sub_1-suspended-epoch-1"}]


@pytest.mark.parametrize(
    "to",
    [
        "",
        "owner",
        "a@b.example, c@d.example",
        "a@b.example\r\nBcc: c@d.example",
        "a @b.example",
        "A <a@b.example>",
    ],
)
def test_what_is_not_one_plain_address_is_refused_before_ses_sees_it(
    aws: Aws, adapter: SesMailer, to: str
) -> None:
    calls = counted(aws.client("sesv2"))
    with pytest.raises(MailRefusedError):
        adapter.send(Mail(to=to, subject="s", text="t", html="h"))
    assert calls == {}


def test_a_subject_cannot_carry_another_header(adapter: SesMailer) -> None:
    with pytest.raises(MailRefusedError):
        adapter.send(Mail(to=MAIL.to, subject="s\r\nBcc: c@d.example", text="t", html="h"))


@pytest.mark.parametrize(
    "code, expected",
    [
        ("MessageRejected", MailRefusedError),
        ("BadRequestException", MailRefusedError),
        ("TooManyRequestsException", MailDeferredError),
        ("LimitExceededException", MailDeferredError),
        ("SendingPausedException", MailDeferredError),
        ("AccountSuspendedException", MailDeferredError),
        ("MailFromDomainNotVerifiedException", MailDeferredError),
        ("AccessDeniedException", MailDeferredError),
        ("NotFoundException", MailDeferredError),
        ("InternalServiceError", MailDeferredError),
    ],
)
def test_each_code_of_ses_is_a_refusal_or_puts_off(
    aws: Aws, adapter: SesMailer, code: str, expected: type[Exception]
) -> None:
    refuse(aws.client("sesv2"), "SendEmail", code=code)
    with pytest.raises(expected):
        adapter.send(MAIL)


@pytest.mark.parametrize("error", [EndpointConnectionError, ReadTimeoutError])
def test_a_ses_that_is_not_reached_puts_off(aws: Aws, adapter: SesMailer, error: Any) -> None:
    answer(aws.client("sesv2"), "SendEmail", [error(endpoint_url="https://email.example")])
    with pytest.raises(MailDeferredError):
        adapter.send(MAIL)
