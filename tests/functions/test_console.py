"""The console lets in whom it should, shows what is so, does what owners ask, and nothing for strangers."""

import hashlib
import html
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from hookkeeper.domain.access import TENANT_RIGHTS, KeyKind, Right
from hookkeeper.domain.circuit import Circuit
from hookkeeper.domain.delivery import DeliveryStatus, Lane
from hookkeeper.domain.errors import OwnFaultError
from hookkeeper.domain.fuse import FuseState
from hookkeeper.domain.notice import WITHHELD, Notice, NoticeStatus
from hookkeeper.domain.recovery import RecoveryStatus
from hookkeeper.domain.session import PortalLink
from hookkeeper.domain.signature import encode_secret, token_hash
from hookkeeper.domain.subscription import Status
from hookkeeper.domain.tenancy import DeliveryKey, Mode

from tests.builders import (
    HOUR,
    MINUTE,
    NOW,
    a_delivered,
    a_delivery,
    a_failing_health,
    a_health,
    a_key,
    a_lock,
    a_notice,
    a_pending_subscription,
    a_profile,
    a_recovery,
    a_scope,
    a_secret,
    a_subscription,
    a_suspended_subscription,
    a_tenant,
    an_attempt,
    an_audit_record,
    an_event,
    an_owed,
)
from tests.functions.cold import FUNCTIONS, cold_start
from tests.functions.console_bench import BASE, ENVIRONMENT, ORIGIN, Browser, ConsoleBench, Shown

CONSOLE = FUNCTIONS / "console"
KEY = a_key()
HERE = f"/subscriptions/{KEY.subscription_id}"
DELIVERY = a_delivery(attempts=(an_attempt(error="http_500"),))
THERE = f"/deliveries/{DELIVERY.key.delivery_id}"


@pytest.fixture(scope="module")
def started() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in ENVIRONMENT.items():
            patch.setenv(name, value)
        yield cold_start("console")


@pytest.fixture
def bench(started: Any) -> ConsoleBench:
    return ConsoleBench(started)


@pytest.fixture
def owner(bench: ConsoleBench) -> Browser:
    """Signed in to a tenant whose one subscription is suspended, with a delivery and a recovery."""
    furnish(bench)
    return Browser.signed_in(bench)


def furnish(bench: ConsoleBench, **changes: Any) -> None:
    bench.world.tenants["acme"] = a_tenant()
    bench.world.add(a_suspended_subscription(**changes), a_failing_health(25))
    bench.world.deliveries[DELIVERY.key] = DELIVERY
    recovery = a_recovery(status=RecoveryStatus.COMPLETED, ended_at=NOW - HOUR, found=3, succeeded=3)
    bench.world.recoveries[recovery.key.scope, recovery.id] = recovery


def a_link(bench: ConsoleBench, token: str = "t0k3n", **changes: Any) -> PortalLink:
    link = PortalLink(
        sha256=token_hash(token),
        scope=a_scope(),
        rights=TENANT_RIGHTS,
        actor="key_1",
        expires_at=NOW + 5 * MINUTE,
        session_life=HOUR,
    )
    link = replace(link, **changes)
    bench.sessions.put_link(link)
    return link


# ── the way in ───────────────────────────────────────────────────────────────────────────────────


def test_a_link_opens_the_console_by_a_button_and_its_cookie_is_kept_from_scripts(
    bench: ConsoleBench,
) -> None:
    furnish(bench)
    link, browser = a_link(bench), Browser(bench)
    looked = browser.get("/open?token=t0k3n")
    assert looked.status == 200
    assert "Acme" in looked.words
    assert bench.sessions.links[link.sha256].used_by is None, "a GET never acts"
    opened = browser.post("/open", token="t0k3n")
    assert (opened.status, opened.leads_to) == (303, "/subscriptions")
    (cookie,) = [each for each in opened.cookies if each.startswith("__Host-hookkeeper=")]
    assert {"Path=/", "HttpOnly", "Secure", "SameSite=Lax", "Max-Age=3600"} <= set(cookie.split("; "))
    assert browser.get("/subscriptions").status == 200
    (session,) = bench.sessions.sessions.values()
    assert browser.cookies["__Host-hookkeeper"] not in repr(session), "what is stored lets nobody in"
    assert (session.scope, session.actor, session.rights) == (link.scope, "key_1", TENANT_RIGHTS)


def test_t64_a_link_that_was_used_lets_nobody_in_again_and_says_so(bench: ConsoleBench) -> None:
    a_link(bench)
    assert Browser(bench).post("/open", token="t0k3n").status == 303
    second = Browser(bench)
    for shown in (second.get("/open?token=t0k3n"), second.post("/open", token="t0k3n")):
        assert shown.status == 410
        assert "was used already" in shown.words
    assert second.cookies == {}


@pytest.mark.parametrize(
    "token,says",
    [
        ("old", "too old"),
        ("unknown", "not one of our links"),
        ("", "not one of our links"),
        ("x" * 5000, "not one"),
    ],
)
def test_a_link_that_is_too_old_or_none_of_ours_says_so(bench: ConsoleBench, token: str, says: str) -> None:
    a_link(bench, "old", expires_at=NOW)
    browser = Browser(bench)
    for shown in (browser.get(f"/open?token={token}"), browser.post("/open", token=token)):
        assert shown.status == 410
        assert says in shown.words
    assert bench.sessions.sessions == {}


def test_a_session_lasts_as_long_as_its_link_says_and_no_longer(bench: ConsoleBench) -> None:
    furnish(bench)
    a_link(bench, session_life=10 * MINUTE)
    browser = Browser(bench)
    browser.post("/open", token="t0k3n")
    bench.now = NOW + 10 * MINUTE - timedelta(seconds=1)
    assert browser.get("/subscriptions").status == 200
    bench.now = NOW + 10 * MINUTE
    assert browser.get("/subscriptions").status == 401


def test_a_mails_link_asks_to_sign_in_and_goes_on_to_its_subscription(bench: ConsoleBench) -> None:
    furnish(bench)
    a_link(bench)
    browser = Browser(bench)
    asked = browser.get(HERE)
    assert asked.status == 401
    assert HERE in asked.words
    assert browser.post("/open", token="t0k3n").leads_to == HERE
    assert "__Host-hookkeeper-next" not in browser.cookies
    shown = browser.get(HERE)
    assert 'action="/api/console' + HERE + '/reenable"' in shown.text
    with_key = Browser(bench)
    with_key.get(HERE)
    assert with_key.post("/sign-in", key=bench.a_key()).leads_to == HERE


@pytest.mark.parametrize(
    "path",
    [
        "//evil.test", "/\\evil.test", "https://evil.test", "/..//evil.test", "/a/../../x",
        "/a%0d%0aSet-Cookie:x=1",
        "/a?b", "javascript:alert(1)", "/" + "a" * 300, "/a/b/c/d/e", "",
    ],
)  # fmt: skip
def test_no_forged_cookie_leads_to_another_site(bench: ConsoleBench, path: str) -> None:
    furnish(bench)
    a_link(bench)
    browser = Browser(bench, {"__Host-hookkeeper-next": path})
    assert browser.post("/open", token="t0k3n").leads_to == "/subscriptions"


def test_an_operator_signs_in_chooses_a_tenant_and_acts_for_it_under_its_own_name(
    bench: ConsoleBench,
) -> None:
    furnish(bench)
    browser = Browser(bench)
    assert browser.post("/sign-in", key=bench.an_operator_key()).leads_to == "/tenants"
    assert browser.get("/subscriptions").leads_to == "/tenants"
    assert browser.get(HERE).status == 409
    assert "acme on the plan standard" in browser.get("/tenants").words
    assert browser.post("/tenants", tenant_id="acme", mode="live").leads_to == "/subscriptions"
    assert browser.get(HERE).status == 200
    assert browser.post(f"{HERE}/revoke", host="hooks.customer.example").status == 303
    (record,) = [each for each in bench.world.audit.values() if each.action == "subscription.revoked"]
    (key,) = bench.world.keys.values()
    assert (record.actor.id, record.actor.source_ip) == (f"console:{key.id}", "198.51.100.7")


def test_a_tenant_that_is_not_there_cannot_be_acted_for(bench: ConsoleBench) -> None:
    operator = Browser.signed_in(bench, operator=True)
    for tenant_id, mode in (("nobody", "live"), ("a#b", "live"), ("acme", "prod"), ("", "")):
        assert operator.post("/tenants", tenant_id=tenant_id, mode=mode).status == 404


@pytest.mark.parametrize("path", ["/tenants", "/fleet", "/fleet/suspended"])
def test_the_operators_pages_are_not_for_owners(owner: Browser, path: str) -> None:
    assert owner.get(path).status == 403
    assert owner.post("/tenants", tenant_id="beta", mode="live").status == 403
    assert owner.post("/fleet/redrive", queue="Deliveries").status == 403
    assert "Fleet" not in owner.get("/subscriptions").words


@pytest.mark.parametrize("key", ["", "hk_op_nonsense", "hk_live_" + "0" * 38, "x" * 9999])
def test_what_is_no_key_lets_nobody_in(bench: ConsoleBench, key: str) -> None:
    browser = Browser(bench)
    shown = browser.post("/sign-in", key=key)
    assert shown.status == 401
    assert browser.cookies == {}
    assert not key or key not in shown.text


def test_a_key_that_ended_lets_nobody_in_and_takes_its_sessions_along(bench: ConsoleBench) -> None:
    furnish(bench)
    text = bench.an_operator_key()
    browser = Browser(bench)
    assert browser.post("/sign-in", key=text).status == 303
    assert browser.get("/tenants").status == 200
    bench.world.keys = {h: replace(key, revoked_at=NOW) for h, key in bench.world.keys.items()}
    assert browser.get("/tenants").status == 401
    assert Browser(bench).post("/sign-in", key=text).status == 401


def test_an_applications_key_lets_nobody_in(bench: ConsoleBench) -> None:
    key = bench.a_key(KeyKind.APP, tenant_id=None, mode=None)
    assert Browser(bench).post("/sign-in", key=key).status == 401


def test_a_test_key_sees_the_test_mode_alone(bench: ConsoleBench) -> None:
    furnish(bench)
    browser = Browser(bench)
    browser.post("/sign-in", key=bench.a_key(KeyKind.TEST, mode=Mode.TEST))
    assert browser.get(HERE).status == 404
    assert "There is no subscription yet" in browser.get("/subscriptions").words


def test_signing_out_ends_the_session_for_good(bench: ConsoleBench, owner: Browser) -> None:
    secret = owner.cookies["__Host-hookkeeper"]
    assert owner.post("/sign-out").status == 303
    assert owner.cookies == {}
    assert Browser(bench, {"__Host-hookkeeper": secret}).get("/subscriptions").status == 401


def test_signing_in_again_ends_the_session_before(bench: ConsoleBench, owner: Browser) -> None:
    before = owner.cookies["__Host-hookkeeper"]
    assert owner.post("/sign-in", key=bench.a_key()).status == 303
    assert owner.cookies["__Host-hookkeeper"] != before
    assert Browser(bench, {"__Host-hookkeeper": before}).get("/subscriptions").status == 401


# ── who may what ─────────────────────────────────────────────────────────────────────────────────

POSTS = (
    "/sign-out", f"{HERE}/reenable", f"{HERE}/pause", f"{HERE}/revoke", f"{HERE}/rotate-secret",
    f"{HERE}/test", f"{HERE}/event-types", f"{HERE}/maintenance", f"{HERE}/verify", f"{HERE}/verification",
    f"{HERE}/recoveries",
    f"{THERE}/resend", "/recoveries/rec_1/cancel", "/recoveries/rec_1/pause", "/recoveries/rec_1/resume",
    "/tenants", "/fleet/redrive", f"{HERE}/notices/release",
)  # fmt: skip
GETS = (
    "/", "/subscriptions", HERE, f"{HERE}/state", f"{HERE}/settings", f"{HERE}/preview", f"{HERE}/audit",
    f"{HERE}/deliveries", f"{HERE}/recoveries", THERE, f"{THERE}/attempts/1", f"{THERE}/body",
    f"/recoveries/{a_recovery().id}", "/tenants", "/fleet", "/fleet/suspended",
)  # fmt: skip
OPEN = {"/console/open", "/console/sign-in", "/console/static/<digest>/<name>"}


def routes(started: Any) -> set[tuple[str, str]]:
    app = started.app
    return {(route.method, route.path) for route in app._static_routes + app._dynamic_routes}


def test_the_lists_of_these_tests_hold_every_route(started: Any) -> None:
    """A new one cannot be forgotten."""
    app = started.app
    known = app._static_routes + app._dynamic_routes
    asked = {(method, path) for method, paths in (("POST", POSTS), ("GET", GETS)) for path in paths}
    met = {
        (route.method, route.path)
        for method, path in asked
        for route in known
        if route.method == method and route.rule.match("/console" if path == "/" else f"/console{path}")
    }
    assert {route for route in routes(started) if route[1] not in OPEN} <= met


@pytest.mark.parametrize("path", GETS)
def test_without_a_session_nothing_is_shown(bench: ConsoleBench, path: str) -> None:
    furnish(bench)
    shown = Browser(bench).get(path)
    assert shown.status == 401
    assert "customer.example" not in shown.text
    assert bench.tenants.entered == []


@pytest.mark.parametrize("path", POSTS)
def test_without_a_session_nothing_is_done(bench: ConsoleBench, path: str) -> None:
    furnish(bench)
    assert Browser(bench).post(path).status == 401
    assert bench.tenants.entered == []


@pytest.mark.parametrize("path", [path for path in POSTS if path != "/sign-out"])
@pytest.mark.parametrize("csrf", ["", "0" * 64, hashlib.sha256(b"csrf\0").hexdigest(), "é"])
def test_t64_a_form_without_the_sessions_own_token_does_nothing(
    bench: ConsoleBench, owner: Browser, path: str, csrf: str
) -> None:
    before = repr(bench.world.subscriptions), len(bench.world.audit)
    assert owner.post(path, csrf=csrf).status == 403
    assert (repr(bench.world.subscriptions), len(bench.world.audit)) == before
    assert bench.tenants.entered == []


FROM_ELSEWHERE: list[dict[str, str]] = [
    {"origin": "https://evil.test", "sec-fetch-site": "cross-site"},
    {"origin": "https://evil.test", "sec-fetch-site": "same-origin"},
    {"origin": ORIGIN, "sec-fetch-site": "same-site"},
    {"origin": ORIGIN, "sec-fetch-site": "none"},
    {"origin": "null"},
    {"origin": f"{ORIGIN}.evil.test"},
    {"origin": ORIGIN.replace("https", "http")},
]


@pytest.mark.parametrize("headers", FROM_ELSEWHERE, ids=range(len(FROM_ELSEWHERE)))
def test_t64_a_post_from_another_site_is_refused_even_with_the_token(
    bench: ConsoleBench, owner: Browser, headers: dict[str, str]
) -> None:
    a_link(bench)
    for path, fields in (
        (f"{HERE}/reenable", {}), ("/open", {"token": "t0k3n"}), ("/sign-in", {"key": bench.a_key()}),
    ):  # fmt: skip
        shown = owner.raw_post(path, headers, **fields)
        assert shown.status == 403
        assert "another site" in shown.words
    assert not bench.world.executions
    assert bench.sessions.links[token_hash("t0k3n")].used_by is None


def test_a_post_that_does_not_say_where_it_comes_from_is_refused(owner: Browser) -> None:
    assert owner.raw_post(f"{HERE}/pause", {}).status == 403


@pytest.mark.parametrize("headers", [{"origin": ORIGIN}, {"sec-fetch-site": "same-origin"}])
def test_either_of_the_two_signs_is_enough(owner: Browser, headers: dict[str, str]) -> None:
    assert owner.raw_post(f"{HERE}/reenable", headers).status == 303


def test_what_is_no_form_is_refused(owner: Browser) -> None:
    shown = owner.post(f"{HERE}/reenable", headers={"content-type": "application/json"})
    assert shown.status == 415
    assert owner.post(f"{HERE}/reenable", x="y" * 70_000).status == 413
    many: dict[str, Any] = {f"f{n}": "" for n in range(60)}
    assert owner.post(f"{HERE}/reenable", **many).status == 400


def test_a_read_only_session_sees_and_changes_nothing(bench: ConsoleBench) -> None:
    furnish(bench)
    reader = Browser.signed_in(bench, rights=frozenset({Right.SUBSCRIPTIONS_READ}))
    shown = reader.get(HERE)
    assert shown.status == 200
    assert "Re-enable" not in shown.words
    assert "Deliveries" not in shown.words
    assert reader.get(f"{HERE}/settings").words.count("Rotate") == 0
    for path in POSTS[1:]:
        assert reader.post(path).status == 403, path
    for path in (f"{HERE}/deliveries", THERE, f"{THERE}/attempts/1", f"{THERE}/body"):
        assert reader.get(path).status == 403, path
    assert not bench.world.audit


@pytest.mark.parametrize(
    "path", [path for path in GETS if "sub_" in path or "dlv_" in path or "rec_" in path]
)
def test_another_tenants_id_reads_as_one_that_does_not_exist(bench: ConsoleBench, path: str) -> None:
    furnish(bench)
    stranger = Browser.signed_in(bench, scope=a_scope("beta"))
    theirs = stranger.get(path)
    nowhere = stranger.get(re.sub(r"(sub|rec|dlv)_0+\d", r"\1_0nothing", path))
    assert (theirs.status, nowhere.status) == (404, 404)
    assert theirs.text == nowhere.text


@pytest.mark.parametrize("id_", ["a%23b", "..", "a b", "é", "x" * 200, "%00", "sub_1%0d%0aX:1"])
def test_what_cannot_be_an_id_is_nowhere(owner: Browser, id_: str) -> None:
    for path in (f"/subscriptions/{id_}", f"/deliveries/{id_}", f"/recoveries/{id_}"):
        assert owner.get(path).status == 404


# ── headers ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("path", [*GETS, "/open?token=x", "/sign-in", "/nowhere", "/static/x/nothing.css"])
def test_t59_t64_no_page_can_be_framed_scripted_sniffed_or_kept(owner: Browser, path: str) -> None:
    shown = owner.get(path)
    policy = dict(
        part.strip().partition(" ")[::2] for part in shown.headers["content-security-policy"].split(";")
    )
    assert policy["default-src"] == "'none'"
    assert (
        policy["script-src"]
        == policy["style-src"]
        == policy["connect-src"]
        == policy["form-action"]
        == "'self'"
    )
    assert policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert shown.headers["x-frame-options"] == "DENY"
    assert shown.headers["x-content-type-options"] == "nosniff"
    assert shown.headers["referrer-policy"] == "same-origin"
    assert shown.headers["cache-control"] == "no-store"


def test_no_template_holds_a_script_a_style_or_a_handler() -> None:
    for path in (CONSOLE / "templates").iterdir():
        text = path.read_text()
        assert not re.search(
            r"<script(?![^>]*\bsrc=)|<style|\bstyle=|\son[a-z]+=|javascript:|\|safe\b|autoescape", text
        )


def test_every_form_that_acts_carries_the_token() -> None:
    for path in (CONSOLE / "templates").iterdir():
        for form in re.findall(r"<form\b.*?</form>", path.read_text(), flags=re.DOTALL):
            if 'method="post"' in form and path.name not in ("open.html", "sign_in.html"):
                assert "m.csrf(visit)" in form, path.name


def test_an_asset_is_kept_for_good_under_a_path_of_its_content(bench: ConsoleBench) -> None:
    page = Browser(bench).get("/sign-in")
    paths = re.findall(r'(?:href|src)="/api/console(/static/[^"]+)"', page.text)
    assert {path.rpartition("/")[2] for path in paths} == {
        "icon.svg", "pico.min.css", "console.css", "htmx.min.js",
    }  # fmt: skip
    for path in paths:
        shown = Browser(bench).get(path)
        assert shown.status == 200
        assert shown.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert hashlib.sha256(shown.text.encode()).hexdigest().startswith(path.split("/")[2])
    assert Browser(bench).get("/static/0000/console.css").headers["cache-control"] == "no-cache"


def test_what_is_vendored_is_what_its_list_says() -> None:
    vendor = CONSOLE / "static" / "vendor"
    listed = dict(
        re.findall(
            r"^(\S+)\s.*\n\s+sha256 ([0-9a-f]{64})$",
            (vendor / "LICENSES.txt").read_text(),
            flags=re.MULTILINE,
        )
    )
    files = {path.name for path in vendor.iterdir()} - {"LICENSES.txt"}
    assert set(listed) == files
    for name, digest in listed.items():
        assert hashlib.sha256((vendor / name).read_bytes()).hexdigest() == digest


# ── hostile text ─────────────────────────────────────────────────────────────────────────────────

CANARY = "\"'><script>alert(1)</script><img src=x onerror=alert(2)>{{7*7}}${7*7}\u202e"


def hostile(bench: ConsoleBench) -> None:
    """The canary in every field that any customer, endpoint or producer can fill."""
    bench.world.tenants["acme"] = a_tenant(name=CANARY)
    health = a_failing_health(25, last_error=CANARY, last_status_code=None)
    profile = a_profile(owner_email=CANARY, description=CANARY, metadata={CANARY: CANARY})
    subscription = a_suspended_subscription(
        endpoint_url=f"https://hooks.customer.example/{CANARY}?{CANARY}",
        pending_endpoint_url=f"https://new.customer.example/{CANARY}",
        event_types=(CANARY,),
        headers={CANARY: "very-secret-value"},
        resource_id=CANARY,
        policy=CANARY,
        status_reason=CANARY,
    )
    bench.world.add(subscription, health, profile)
    attempt = an_attempt(error=CANARY, status_code=None, excerpt=CANARY, at=NOW - HOUR - MINUTE)
    delivery = a_delivery(
        event_type=CANARY, attempts=(attempt,), archived_at=NOW - HOUR - MINUTE, resource_id=CANARY
    )
    bench.world.deliveries[DELIVERY.key] = delivery
    bench.archive.put([an_event(1, type=CANARY)], now=NOW - HOUR - MINUTE)
    recovery = a_recovery(status=RecoveryStatus.PROBE_FAILED, ended_at=NOW, probe_error=CANARY, actor=CANARY)
    bench.world.recoveries[recovery.key.scope, recovery.id] = recovery
    record = an_audit_record(
        action=CANARY, before={CANARY: CANARY}, after={CANARY: CANARY}, detail=CANARY,
        actor=replace(an_audit_record().actor, id=CANARY, source_ip=CANARY),
    )  # fmt: skip
    bench.world.audit[record.scope, record.subject, record.id] = record
    notice = a_notice(owner_email=CANARY, endpoint_url=CANARY, facts={CANARY: CANARY})
    bench.world.notices[notice.key, notice.kind, notice.dedupe] = notice
    bench.dead_letters.lying[CANARY] = 1


@pytest.mark.parametrize(
    "path", [path for path in GETS if path not in ("/", f"{THERE}/attempts/1", f"{THERE}/body")]
)
def test_t59_whatever_was_written_into_a_field_is_shown_as_text(bench: ConsoleBench, path: str) -> None:
    hostile(bench)
    operator = path.startswith(("/tenants", "/fleet"))
    browser = Browser.signed_in(bench, operator=operator)
    shown = browser.get(path, headers={"hx-request": "true"} if path.endswith(("/state", "/preview")) else {})
    assert shown.status == 200, shown.words
    assert "<script>alert" not in shown.text
    assert "<img" not in shown.text
    assert "very-secret-value" not in shown.text
    tags = re.findall(r"<[a-z][^<>]*", shown.text)
    assert not [tag for tag in tags if re.search(r"\son[a-z]+\s*=", re.sub(r'"[^"]*"', '""', tag))]
    if path not in (f"{HERE}/recoveries", f"{HERE}/preview"):
        assert "&lt;script&gt;alert(1)" in shown.text


@pytest.mark.parametrize(
    "path",
    [
        f"{HERE}?done={quote(CANARY)}&asked={quote(CANARY)}",
        f"{HERE}/settings?event_types={quote(CANARY)}",
        f"{HERE}/preview?event_types={quote(CANARY)}",
        f"{HERE}/audit?before={quote(CANARY)}",
        f"{HERE}/deliveries?status={quote(CANARY)}&from={quote(CANARY)}&to={quote(CANARY)}&after={quote(CANARY)}",
        f"{HERE}/recoveries?only={quote(CANARY)}&from={quote(CANARY)}",
        f"{HERE}/recoveries?only=owed&from={quote(CANARY)}",
        f"{HERE}/recoveries?only=owed&from=9999-99-99T99:99&to=0000-00-00T00:00",
        f"/subscriptions?status={quote(CANARY)}&after={quote(CANARY)}",
        f"/open?token={quote(CANARY)}",
        f"/{quote(CANARY)}",
        f"{HERE}?asked=99999999999&done=paused",
        f"{HERE}/deliveries?from=0001-01-01&to=9999-12-31&after=2026-12-01T00:00:00Z~x",
    ],
)
def test_t59_whatever_stands_in_an_address_is_text_or_nothing(owner: Browser, path: str) -> None:
    shown = owner.get(path)
    assert shown.status in (200, 404, 410), shown.words
    assert "<script>alert" not in shown.text
    assert "<img" not in shown.text


@pytest.mark.parametrize("path", [f"{THERE}/attempts/1", f"{THERE}/body"])
def test_t59_what_others_wrote_is_served_raw_as_plain_text_alone(bench: ConsoleBench, path: str) -> None:
    hostile(bench)
    if path.endswith("body"):
        (archived,) = bench.archive.put([replace(an_event(1), body=CANARY.encode())], now=NOW)
        delivery = bench.world.deliveries[DELIVERY.key]
        bench.world.deliveries[DELIVERY.key] = replace(delivery, pointer=archived.pointer)
    shown = Browser.signed_in(bench).get(path)
    assert shown.text == CANARY
    assert shown.headers["content-type"] == "text/plain; charset=utf-8"
    assert shown.headers["x-content-type-options"] == "nosniff"
    inside = Browser.signed_in(bench).get(path, headers={"hx-request": "true"})
    assert path.endswith("1") or "&lt;script&gt;alert(1)" in inside.text


# ── what is shown ────────────────────────────────────────────────────────────────────────────────


def test_a_suspended_subscription_says_why_by_the_policys_arithmetic_and_how_much_waits(
    bench: ConsoleBench, owner: Browser
) -> None:
    for n in range(2, 5):
        bench.archive.put([an_event(n)], now=NOW - MINUTE * n)
    owed = an_owed(archived_at=NOW - 3 * HOUR, status=DeliveryStatus.EXHAUSTED)
    bench.world.owed[owed.key, owed.archived_at] = owed
    bench.world.health[KEY] = replace(bench.world.health[KEY], outage_from=NOW - 2 * HOUR)
    words = owner.get(HERE).words
    assert "We stopped sending on 1 Dec 2026, 11:00 UTC" in words
    assert "25 deliveries in a row failed since 30 Nov 2026, 23:00 UTC" in words
    assert "suspends at 25: 25 · 12 h: 12 h 59 min" in words
    assert "500 Internal Server Error" in words
    assert "4 events wait" in words
    assert "until 8 Dec 2026, 10:00 UTC" in words
    assert "Re-enable" in words


def test_of_a_resource_s_subscription_its_own_events_alone_wait(bench: ConsoleBench, owner: Browser) -> None:
    bench.world.subscriptions[KEY] = replace(bench.world.subscriptions[KEY], resource_id="r_1")
    for n, resource_id in enumerate(("r_1", "r_1", "r_2", None), start=2):
        bench.archive.put([an_event(n, resource_id=resource_id)], now=NOW - MINUTE * n)
    assert "2 events wait" in owner.get(HERE).words


def test_a_failing_one_says_how_far_it_is_from_suspension(bench: ConsoleBench, owner: Browser) -> None:
    health = replace(a_failing_health(14, hours=5), last_attempt_at=NOW)
    bench.world.add(a_subscription(), replace(health, circuit=Circuit(open_until=NOW + 4 * MINUTE)))
    for path in (HERE, "/subscriptions"):
        words = owner.get(path).words
        assert "suspends at 25: 14 · 12 h: 5 h" in words
        assert "Not answering" in words
    assert "try one in 4 min" in owner.get(HERE).words


@pytest.mark.parametrize(
    "subscription,health,word",
    [
        (a_subscription(), a_health(), "Active"),
        (a_subscription(), a_failing_health(2), "Failing"),
        (a_subscription(), a_health(circuit=Circuit(open_until=NOW)), "Not answering"),
        (a_subscription(), a_health(recovery=a_lock()), "Catching up"),
        (a_suspended_subscription(), a_failing_health(), "Suspended"),
        (a_suspended_subscription(disabled_reason="manual"), a_health(), "Paused"),
        (a_suspended_subscription(disabled_reason="consent_withdrawn"), a_health(), "Consent withdrawn"),
        (a_pending_subscription(), a_health(), "Not verified yet"),
    ],
)
def test_a_status_is_a_word_and_a_shape_and_never_a_colour_alone(
    bench: ConsoleBench, subscription: Any, health: Any, word: str
) -> None:
    bench.world.add(subscription, health)
    browser = Browser.signed_in(bench)
    for path in ("/subscriptions", HERE, f"{HERE}/audit"):
        shown = browser.get(path)
        assert re.search(
            rf'<span class="mark \w+">\s*<svg class="shape".*?</svg> {word}</span>', shown.text, re.DOTALL
        )


def test_the_list_leaves_out_the_revoked_unless_asked_and_goes_on_from_page_to_page(
    bench: ConsoleBench,
) -> None:
    bench.world.add(a_subscription(key=a_key(1), status=Status.REVOKED))
    for n in range(2, 32):
        bench.world.add(a_subscription(key=a_key(n)))
    browser = Browser.signed_in(bench)
    first = browser.get("/subscriptions")
    (after,) = re.findall(r'href="/api/console(/subscriptions\?[^"]*after=[^"]*)"', first.text)
    second = browser.get(html.unescape(after))
    shown = [re.findall(r"/subscriptions/(sub_\d+)", page.text) for page in (first, second)]
    assert [len(ids) for ids in shown] == [25, 5]
    assert len(set(shown[0] + shown[1])) == 30
    assert a_key(1).subscription_id in browser.get("/subscriptions?status=revoked").text


def test_deliveries_keep_their_filters_in_the_address(bench: ConsoleBench, owner: Browser) -> None:
    for n in range(1, 31):
        at = NOW - n * MINUTE
        key = DeliveryKey(KEY, an_event(n).id)
        status = DeliveryStatus.SUCCEEDED if n % 2 else DeliveryStatus.DISCARDED
        bench.archive.put([an_event(n)], now=at)
        bench.world.deliveries[key] = a_delivered(key=key, archived_at=at, status=status)
    shown = owner.get(f"{HERE}/deliveries")
    (more,) = re.findall(r'rel="next" href="/api/console([^"]*)"', shown.text)
    assert owner.get(html.unescape(more)).text.count('<th scope="row"') == 5
    narrowed = owner.get(f"{HERE}/deliveries?status=discarded&from=2026-12-01&to=2026-12-01")
    assert narrowed.text.count('<th scope="row"') == 15
    assert '<option value="discarded" selected>' in narrowed.text
    assert owner.get(f"{HERE}/deliveries?to=2026-11-30").text.count('<th scope="row"') == 0


def test_a_delivery_shows_its_attempts_its_answers_and_a_request_with_every_secret_masked(
    bench: ConsoleBench, owner: Browser
) -> None:
    bench.world.add(a_subscription(headers={"X-Api-Key": "very-secret-value"}))
    shown = owner.get(THERE)
    assert "Attempt 1: 500 Internal Server Error" in shown.words
    assert "oops" in shown.words
    for line in (f"webhook-id: {DELIVERY.key.event_id}", "webhook-signature: v1,***", "X-Api-Key: ***"):
        assert line in shown.words
    assert "very-secret-value" not in shown.text


def test_a_chart_says_in_words_what_it_draws(bench: ConsoleBench, owner: Browser) -> None:
    for n, error in enumerate(("http_500", "http_500", None), start=1):
        at, key = NOW - HOUR - n * MINUTE, DeliveryKey(KEY, an_event(n).id)
        bench.archive.put([an_event(n)], now=at)
        attempt = an_attempt(at=at, error=error, status_code=500 if error else 200)
        bench.world.deliveries[key] = a_delivery(key=key, archived_at=at, attempts=(attempt,))
    shown = owner.get(HERE)
    assert 'role="img" aria-labelledby="chart-text"' in shown.text
    assert "Outcomes per hour. 1 attempt went well and 2 failed in 24 hours." in html.unescape(shown.text)
    assert "Hour by hour" in shown.words


# ── what is done ─────────────────────────────────────────────────────────────────────────────────


def test_re_enabling_starts_the_recovery_and_the_page_then_tells_how_it_goes(
    bench: ConsoleBench, owner: Browser
) -> None:
    answer = owner.post(f"{HERE}/reenable", rate="20")
    (options,) = [options for _, options in bench.world.executions.values()]
    assert (options["kind"], options["probe"], options["backfill"], options["rate"]) == (
        "reenable",
        True,
        True,
        20.0,
    )
    assert options["actor"] == "console:key_1"
    assert answer.leads_to == f"{HERE}?asked={int(NOW.timestamp())}&before={a_recovery().id}"
    page = owner.get(answer.leads_to)
    poll = re.search(r'id="state"[^>]*hx-get="/api/console([^"]*)"[^>]*hx-trigger="load delay:2s"', page.text)
    assert poll
    assert "Checking the endpoint" in page.words
    assert not re.search(r'<button id="reenable"', page.text), "it is asked for already"

    probing = a_recovery(2, status=RecoveryStatus.PROBING, started_at=NOW)
    state = tell(
        bench, owner, poll[1], probing, a_suspended_subscription(), a_failing_health(recovery=a_lock(probing))
    )
    assert "One test request is on its way" in state.words
    assert "hx-get" in state.text

    failed = replace(probing, status=RecoveryStatus.PROBE_FAILED, ended_at=NOW, probe_status_code=503)
    state = tell(bench, owner, poll[1], failed, a_suspended_subscription(), a_failing_health())
    assert "was answered 503 Service Unavailable" in state.words
    assert "hx-get" not in state.text
    assert re.search(r'<button id="reenable"', state.text), "try again at once"

    running = replace(
        probing,
        status=RecoveryStatus.RUNNING,
        found=1204,
        sent=640,
        succeeded=602,
        failed=1,
        rate_per_second=20.0,
    )
    state = tell(bench, owner, poll[1], running, a_subscription(), a_health(recovery=a_lock(running)))
    assert "602 of 1,204 found so far delivered" in state.words
    assert "20 a second" in state.words
    assert "in 28 s" in state.words or "in less than a minute" in state.words
    assert re.search(r'<progress id="bar" max="1204" value="603">', state.text)
    assert "hx-get" in state.text

    assert owner.post(f"{HERE}/reenable").leads_to == f"{HERE}?done=resumed"
    assert len(bench.world.executions) == 1

    done = replace(running, status=RecoveryStatus.COMPLETED, ended_at=NOW, succeeded=1203, sent=1204)
    state = tell(bench, owner, poll[1], done, a_subscription(), a_health())
    assert "1,203 of 1,204 delivered" in state.words
    assert "hx-get" not in state.text


def tell(
    bench: ConsoleBench, owner: Browser, path: str, recovery: Any, subscription: Any, health: Any
) -> Shown:
    """The part that moves, once the world has come so far."""
    bench.world.recoveries[recovery.key.scope, recovery.id] = recovery
    bench.world.add(subscription, health)
    return owner.get(html.unescape(path), headers={"hx-request": "true"})


def test_a_page_does_not_wait_for_ever_for_what_never_began(bench: ConsoleBench, owner: Browser) -> None:
    path = owner.post(f"{HERE}/reenable").leads_to
    bench.now = NOW + timedelta(minutes=3)
    assert "hx-get" not in owner.get(path.replace("?", "/state?")).text


def test_whoever_tries_again_at_once_is_not_shown_the_failure_before(
    bench: ConsoleBench, owner: Browser
) -> None:
    failed = a_recovery(2, status=RecoveryStatus.PROBE_FAILED, ended_at=NOW, probe_status_code=503)
    bench.world.recoveries[failed.key.scope, failed.id] = failed
    assert "503 Service Unavailable" in owner.get(HERE).words
    again = owner.get(owner.post(f"{HERE}/reenable").leads_to)
    assert "503 Service Unavailable" not in again.words
    assert "Checking the endpoint" in again.words


def test_re_enabling_may_leave_out_what_was_missed(bench: ConsoleBench, owner: Browser) -> None:
    owner.post(f"{HERE}/reenable", without_backfill="1", rate="nonsense")
    (options,) = [options for _, options in bench.world.executions.values()]
    assert (options["backfill"], options["rate"]) == (False, None)


def test_an_active_one_is_paused_and_says_so(bench: ConsoleBench, owner: Browser) -> None:
    bench.world.add(a_subscription())
    assert "Pause" in owner.get(HERE).words
    shown = owner.get(owner.post(f"{HERE}/pause").leads_to)
    assert "Nothing is sent until you resume" in shown.words
    assert bench.world.subscriptions[KEY].status is Status.SUSPENDED
    (record,) = bench.world.audit.values()
    assert record.actor.id == "console:key_1"


def test_what_its_status_does_not_allow_is_a_sentence(owner: Browser) -> None:
    shown = owner.post(f"{HERE}/pause")
    assert shown.status == 409
    assert "only active subscriptions can be paused" in shown.words
    assert f'href="/api/console{HERE}"' in shown.text


def test_revoking_needs_the_host_typed(bench: ConsoleBench, owner: Browser) -> None:
    for typed in ("", "hooks", "HOOKS.customer.example.evil"):
        shown = owner.post(f"{HERE}/revoke", host=typed)
        assert shown.status == 422
        assert "Nothing was changed" in shown.words
    assert bench.world.subscriptions[KEY].status is Status.SUSPENDED
    assert owner.post(f"{HERE}/revoke", host=" Hooks.customer.example ").status == 303
    assert bench.world.subscriptions[KEY].status is Status.REVOKED
    assert "for good" in owner.get(HERE).words


def test_a_rotated_secret_is_shown_once_and_never_again(bench: ConsoleBench, owner: Browser) -> None:
    bench.world.secrets[KEY, f"kms:{KEY.subscription_id}/versions/1"] = (a_secret(), None)
    shown = owner.post(f"{HERE}/rotate-secret", overlap_hours="2")
    assert shown.status == 200
    (stored,) = [s for (key, ref), (s, _) in bench.world.secrets.items() if ref.endswith("/2")]
    secret = encode_secret(stored.key)
    assert secret in shown.text
    assert "1 Dec 2026, 14:00 UTC" in shown.words
    assert shown.headers["cache-control"] == "no-store"
    for path in (HERE, f"{HERE}/settings", f"{HERE}/audit"):
        assert secret not in owner.get(path).text
    for hours in ("-1", "169", "x", "nan", "inf", ""):
        assert owner.post(f"{HERE}/rotate-secret", overlap_hours=hours).status == 422


def test_a_test_event_is_asked_for(bench: ConsoleBench, owner: Browser) -> None:
    assert owner.post(f"{HERE}/test", event_type="invoice.paid").leads_to == f"{HERE}?done=tested"
    assert [(key, kind) for key, kind, _ in bench.world.tests] == [(KEY, "invoice.paid")]
    assert owner.post(f"{HERE}/test", event_type="No Type").status == 422


def test_a_day_without_an_attempt_is_told_as_such(bench: ConsoleBench, owner: Browser) -> None:
    bench.world.deliveries.clear()
    shown = owner.get(HERE).words
    assert "No attempt in 24 hours." in shown
    assert "an hour" not in shown


def test_a_filter_is_tried_on_yesterdays_types_before_it_is_saved(
    bench: ConsoleBench, owner: Browser
) -> None:
    types = ("invoice.paid", "invoice.line.added", "order.made", "invoice.paid")
    for n, kind in enumerate(types, start=1):
        bench.archive.put([an_event(n, type=kind)], now=NOW - n * MINUTE)
    shown = owner.get(f"{HERE}/preview?event_types={quote('invoice.*')}", headers={"hx-request": "true"})
    assert "Of the 3 event types seen in the last 24 hours it takes 2" in shown.words
    assert "leaves 1: order.made × 1" in shown.words
    without_script = owner.get(f"{HERE}/settings?event_types={quote('order.made')}")
    assert "it takes 1: order.made × 1" in without_script.words
    assert ">order.made</textarea>" in without_script.text
    wrong = owner.get(f"{HERE}/preview?event_types=a*")
    assert wrong.status == 200
    assert "invoice" not in wrong.words


def test_a_filter_is_saved_over_the_version_that_was_read(bench: ConsoleBench, owner: Browser) -> None:
    version = str(bench.world.subscriptions[KEY].version)
    answer = owner.post(f"{HERE}/event-types", event_types="order.*\r\ninvoice.paid", version=version)
    assert answer.leads_to == f"{HERE}?done=edited"
    assert bench.world.subscriptions[KEY].event_types == ("order.*", "invoice.paid")
    for late in (version, "9" * 5000):
        assert owner.post(f"{HERE}/event-types", event_types="*", version=late).status == 412
    wrong = owner.post(f"{HERE}/event-types", event_types="a..b", version="2")
    assert wrong.status == 422
    assert "Nothing was changed" in wrong.words
    assert ">a..b</textarea>" in wrong.text
    assert bench.world.subscriptions[KEY].event_types == ("order.*", "invoice.paid")


def test_maintenance_is_announced_and_ended(bench: ConsoleBench, owner: Browser) -> None:
    assert owner.post(f"{HERE}/maintenance", hours="3").status == 303
    assert bench.world.subscriptions[KEY].maintenance_until == NOW + 3 * HOUR
    assert owner.post(f"{HERE}/maintenance", hours="0").status == 303
    assert bench.world.subscriptions[KEY].maintenance_until is None
    for hours in ("-1", "169", "x", "", "9" * 30, "01689999", "9" * 5000):
        assert owner.post(f"{HERE}/maintenance", hours=hours).status == 422


def test_a_pending_one_is_verified_by_hand_or_challenged_again(bench: ConsoleBench) -> None:
    bench.world.add(a_pending_subscription(token_hash=token_hash("ch4ll3ng3")))
    browser = Browser.signed_in(bench)
    assert browser.post(f"{HERE}/verify", challenge="wrong").status == 422
    assert browser.post(f"{HERE}/verification").leads_to == f"{HERE}?done=challenged"
    ((key, token),) = bench.world.challenges
    assert key == KEY
    assert token not in browser.get(HERE).text
    assert browser.post(f"{HERE}/verify", challenge=f" {token} ").leads_to == f"{HERE}?done=verified"
    assert bench.world.subscriptions[KEY].status is Status.ACTIVE


def test_a_delivery_is_sent_again_once_per_press(bench: ConsoleBench, owner: Browser) -> None:
    assert "Resend" not in owner.get(THERE).words, "of a suspended one nothing is sent"
    bench.world.add(a_subscription())
    assert "Resend" in owner.get(THERE).words
    shown = owner.get(owner.post(f"{THERE}/resend").leads_to)
    assert "One more attempt is on its way" in shown.words
    ((_, parcel),) = bench.world.queues["deliveries"]
    assert (parcel.key, parcel.lane) == (DELIVERY.key, Lane.REPLAY)


def test_a_replay_is_counted_before_it_is_started(bench: ConsoleBench, owner: Browser) -> None:
    bench.world.add(a_subscription())
    owed = an_owed(status=DeliveryStatus.EXHAUSTED, archived_at=NOW - HOUR)
    bench.world.owed[owed.key, owed.archived_at] = owed
    path = f"{HERE}/recoveries"
    assert "Send it again" not in owner.get(path).words
    window = "from=2026-12-01T10:00&to=2026-12-01T11:30"
    counted = owner.get(f"{path}?only=owed&{window}")
    assert (
        "1 event would be sent: archived from 1 Dec 2026, 10:00 UTC to 1 Dec 2026, 11:30 UTC" in counted.words
    )
    assert not bench.world.executions
    asked: dict[str, Any] = {"only": "owed", "from": "2026-12-01T10:00", "to": "2026-12-01T11:30"}
    answer = owner.post(path, **asked)
    (options,) = [options for _, options in bench.world.executions.values()]
    assert answer.leads_to == f"/recoveries/{options['recovery_id']}"
    assert owner.get(answer.leads_to).status == 200
    assert (
        "ends before it begins"
        in owner.get(f"{path}?only=owed&from=2026-12-01T11:00&to=2026-12-01T10:00").words
    )


def test_a_replay_is_of_the_types_and_at_the_rate_that_are_asked_for(
    bench: ConsoleBench, owner: Browser
) -> None:
    bench.world.add(a_subscription())
    path = f"{HERE}/recoveries"
    assert 'name="event_types" value="*"' in owner.get(path).text
    kinds = ("invoice.paid", "order.made", "order.shipped")
    bench.archive.put([an_event(n, type=kind) for n, kind in enumerate(kinds, 100)], now=NOW - HOUR)
    counted = owner.get(f"{path}?only=owed&event_types={quote('order.*, a.b')}&rate=7")
    assert "2 events would be sent" in counted.words
    assert "of order.*, a.b" in counted.words.replace(" and ", ", ")
    assert "at most 7 a second" in counted.words
    form = dict(re.findall(r'<input type="hidden" name="([a-z_]+)" value="([^"]*)">', counted.text))
    assert (form["event_types"], form["rate"]) == ("order.*, a.b", "7")
    form.pop("csrf")
    started = owner.post(path, **form).leads_to.rpartition("/")[2]
    recovery = bench.world.recoveries[KEY.scope, started]
    assert recovery.replay is not None
    assert (recovery.replay.event_types, recovery.max_rate) == (("order.*", "a.b"), 7.0)


@pytest.mark.parametrize(
    "wrong,told",
    [
        ("rate=0", "1 to 1000 deliveries a second"),
        ("rate=1001", "1 to 1000 deliveries a second"),
        ("rate=1.5", "1 to 1000 deliveries a second"),
        ("rate=x", "1 to 1000 deliveries a second"),
        ("rate=0100099999", "1 to 1000 deliveries a second"),
        ("event_types=a*", "is no event type"),
        ("event_types=", "at least one event type"),
    ],
)
def test_a_replay_of_what_cannot_be_meant_is_neither_counted_nor_started(
    wrong: str, told: str, bench: ConsoleBench, owner: Browser
) -> None:
    bench.world.add(a_subscription())
    path = f"{HERE}/recoveries"
    shown = owner.get(f"{path}?only=owed&{wrong}")
    assert told in shown.words.lower()
    assert "would be sent" not in shown.words
    name, _, value = wrong.partition("=")
    asked: dict[str, Any] = {"only": "owed", name: value}
    assert owner.post(path, **asked).status == 422
    assert not bench.world.executions


def test_a_replays_types_are_tried_on_what_the_subscription_takes(
    bench: ConsoleBench, owner: Browser
) -> None:
    bench.world.add(a_subscription(event_types=("order.*",)))
    kinds = ("invoice.paid", "order.made", "order.shipped")
    bench.archive.put([an_event(n, type=kind) for n, kind in enumerate(kinds, 100)], now=NOW - HOUR)
    shown = owner.get(f"{HERE}/preview?own=1&event_types={quote('*')}", headers={"hx-request": "true"}).words
    assert "Of the 2 event types for this subscription seen in the last 24 hours it takes 2" in shown
    assert "invoice.paid" not in shown
    all_types = owner.get(f"{HERE}/preview?event_types={quote('*')}", headers={"hx-request": "true"}).words
    assert "Of the 3 event types seen" in all_types


def test_a_recovery_is_paused_resumed_and_cancelled(bench: ConsoleBench, owner: Browser) -> None:
    recovery = a_recovery(2, found=10, succeeded=4)
    path = f"/recoveries/{recovery.id}"
    bench.world.recoveries[recovery.key.scope, recovery.id] = recovery
    bench.world.add(a_subscription(), a_health(recovery=a_lock(recovery)))
    for deed, status in (("pause", "paused"), ("resume", "waiting"), ("cancel", "cancelled")):
        assert deed.capitalize() in owner.get(path).words
        assert owner.post(f"{path}/{deed}").leads_to == path
        assert bench.world.recoveries[recovery.key.scope, recovery.id].status == status
    assert "Cancel" not in owner.get(path).words.replace("Cancelled", "")
    assert {each.actor.id for each in bench.world.audit.values()} == {"console:key_1"}


@pytest.mark.parametrize("status", NoticeStatus)
def test_a_notice_is_shown_however_it_stands(
    bench: ConsoleBench, owner: Browser, status: NoticeStatus
) -> None:
    a_told(bench, status=status)
    shown = owner.get(HERE)
    assert shown.status == 200
    assert "Suspended, 1 Dec 2026, 12:00 UTC, to owner@customer.example" in shown.words
    assert "Release" not in shown.words, "an operator's part"


def a_told(bench: ConsoleBench, **changes: Any) -> Notice:
    notice = a_notice(key=KEY, **changes)
    bench.world.notices.clear()
    bench.world.notices[notice.key, notice.kind, notice.dedupe] = notice
    return notice


@pytest.mark.parametrize("status", sorted(WITHHELD))
def test_f55_an_operator_releases_a_notice_that_was_withheld(
    bench: ConsoleBench, status: NoticeStatus
) -> None:
    notice = a_told(bench, status=status, mail_fault="it is of another time", claimed_until=NOW - HOUR)
    bench.world.tenants["acme"] = a_tenant()
    bench.world.add(a_subscription())
    operator = Browser.signed_in(bench, operator=True)
    operator.post("/tenants", tenant_id="acme", mode="live")
    shown = operator.get(HERE)
    assert "it is of another time" in shown.words
    assert f'name="notice_id" value="{notice.id}"' in shown.text
    done = operator.post(f"{HERE}/notices/release", notice_id=notice.id).leads_to
    assert "its owner is mailed within a few minutes" in operator.get(done).words
    (stored,) = bench.world.notices.values()
    assert (stored.status, stored.mail_fault) == (NoticeStatus.PENDING, None)
    assert [(each.action, each.detail) for each in bench.world.audit.values()] == [
        ("notice.released", notice.id)
    ]
    assert operator.post(f"{HERE}/notices/release", notice_id=notice.id).status == 409, "it is open"
    assert operator.post(f"{HERE}/notices/release", notice_id="sub_1.x.y").status == 404
    assert len(bench.world.audit) == 1


def test_an_owner_releases_nothing(bench: ConsoleBench, owner: Browser) -> None:
    notice = a_told(bench, status=NoticeStatus.STALE)
    assert owner.post(f"{HERE}/notices/release", notice_id=notice.id).status == 403
    assert next(iter(bench.world.notices.values())).status is NoticeStatus.STALE


# ── operators ────────────────────────────────────────────────────────────────────────────────────


def test_the_fleet_shows_who_wants_somebody_and_what_is_dead(bench: ConsoleBench) -> None:
    furnish(bench)
    bench.world.tenants["beta"] = a_tenant("beta", name="Beta")
    theirs = a_key(2, a_scope("beta"))
    bench.world.add(a_subscription(key=theirs), a_failing_health(14, hours=5, key=theirs))
    bench.world.add(a_subscription(key=a_key(3)))
    bench.dead_letters.lying["Deliveries"] = 3
    words = Browser.signed_in(bench, operator=True).get("/fleet").words
    assert "1 active, 1 suspended" in words
    assert "1 active, 0 suspended" in words
    assert "suspends at 25: 14" in words
    assert "Deliveries 3 Redrive" in words


def test_the_suspended_of_all_tenants_and_modes_are_listed_with_the_arithmetic(bench: ConsoleBench) -> None:
    furnish(bench)
    bench.world.tenants["beta"] = a_tenant("beta", name="Beta")
    theirs = a_key(2, a_scope("beta", Mode.TEST))
    bench.world.add(
        a_suspended_subscription(key=theirs, endpoint_url="https://beta.example/in"),
        a_failing_health(31, hours=14, key=theirs),
    )
    operator = Browser.signed_in(bench, operator=True)
    shown = operator.get("/fleet/suspended")
    assert "beta.example/in" in shown.words
    assert "beta test" in shown.words
    assert "suspends at 25: 31 · 12 h: 13 h 59 min" in shown.words
    assert "Looked at 2 subscriptions, to the last tenant." in shown.words
    answer = operator.post(
        "/tenants", tenant_id="beta", mode="test", then=f"/subscriptions/{theirs.subscription_id}"
    )
    assert "beta.example/in" in operator.get(answer.leads_to).words


@pytest.mark.parametrize(
    "count, hours, listed", [(24, 13, True), (24, 5, False), (23, 13, False), (0, 0, False)]
)
def test_whom_the_next_failure_would_suspend_is_at_risk(
    bench: ConsoleBench, count: int, hours: int, *, listed: bool
) -> None:
    bench.world.tenants["acme"] = a_tenant()
    health = a_failing_health(count, hours=hours) if count else a_health()
    bench.world.add(a_subscription(endpoint_url="https://risk.example/in"), health)
    shown = Browser.signed_in(bench, operator=True).get("/fleet/at-risk").words
    assert ("risk.example/in" in shown) is listed
    assert ("Nobody." in shown) is not listed


def test_who_does_not_answer_is_listed_by_the_circuit(bench: ConsoleBench) -> None:
    bench.world.tenants["acme"] = a_tenant()
    shut = Circuit(open_until=NOW + MINUTE)
    bench.world.add(a_subscription(endpoint_url="https://shut.example/in"), a_health(circuit=shut))
    well = a_key(2)
    bench.world.add(a_subscription(key=well, endpoint_url="https://well.example/in"), a_health(key=well))
    shown = Browser.signed_in(bench, operator=True).get("/fleet/not-answering").words
    assert "shut.example/in" in shown
    assert "well.example/in" not in shown


def test_a_list_of_the_fleet_goes_on_until_every_subscription_of_every_tenant_was_looked_at(
    bench: ConsoleBench,
) -> None:
    urls = set()
    for tenant, number in (("acme", 30), ("beta", 130), ("gamma", 1)):
        bench.world.tenants[tenant] = a_tenant(tenant)
        for n in range(1, number + 1):
            key = a_key(n, a_scope(tenant))
            suspended = tenant != "beta" or n in (1, 129)
            make = a_suspended_subscription if suspended else a_subscription
            url = f"https://{tenant}{n}.example/in"
            bench.world.add(make(key=key, endpoint_url=url), a_health(key=key))
            urls |= {url} if suspended else set()
    operator = Browser.signed_in(bench, operator=True)
    path: str | None = "/fleet/suspended"
    seen: list[str] = []
    pages = 0
    while path is not None:
        shown = operator.get(path)
        seen += re.findall(r'class="host">(\w+\.example)<', shown.text)
        further = re.search(r'rel="next" href="([^"]+)"', shown.text)
        path = html.unescape(further[1]).removeprefix(BASE) if further else None
        pages += 1
    assert sorted(f"https://{host}/in" for host in seen) == sorted(urls)
    assert pages == 2


@pytest.mark.parametrize("after", ["acme", "~~", "a.b~live~", "acme~purple~", "acme~live~../x", "<script>"])
def test_a_place_that_no_page_of_ours_names_is_the_beginning(bench: ConsoleBench, after: str) -> None:
    furnish(bench)
    shown = Browser.signed_in(bench, operator=True).get(f"/fleet/suspended?{urlencode({'after': after})}")
    assert "From the beginning" not in shown.words
    assert "Suspended" in shown.words


def test_there_is_no_other_list_of_the_fleet(bench: ConsoleBench) -> None:
    assert Browser.signed_in(bench, operator=True).get("/fleet/everything").status == 404


@pytest.mark.parametrize(
    "state, says",
    [
        (FuseState(), "Suspensions pass"),
        (FuseState(let_through={f"h{n}": NOW for n in range(5)}), "Suspensions wait"),
        (FuseState(latched_at=NOW, canary_at=NOW, canary_answered=False), "Latched: our own fault"),
    ],
    ids=["open", "full", "latched"],
)
def test_the_fleet_says_whether_suspensions_pass(bench: ConsoleBench, state: FuseState, says: str) -> None:
    bench.world.fuse = state
    assert says in Browser.signed_in(bench, operator=True).get("/fleet").words


def test_dead_letters_go_back_by_a_button(bench: ConsoleBench) -> None:
    bench.dead_letters.lying["Deliveries"] = 3
    operator = Browser.signed_in(bench, operator=True)
    answer = operator.post("/fleet/redrive", queue="Deliveries")
    assert "3 messages went back" in operator.get(answer.leads_to).words
    assert bench.dead_letters.moved["Deliveries"] == 3
    for name in ("Ingest", "nothing", ""):
        assert operator.post("/fleet/redrive", queue=name).status == 404


# ── faults of our own ────────────────────────────────────────────────────────────────────────────


def test_a_fault_of_ours_is_a_page_that_tells_nothing_of_it(bench: ConsoleBench, owner: Browser) -> None:
    def busy(_: str) -> None:
        raise OwnFaultError("the tables stay busy at 10.0.0.7")

    def broken(_: str) -> None:
        raise RuntimeError("secret detail")

    for fault, status in ((busy, 503), (broken, 500)):
        bench.world.before_call = fault
        shown = owner.get("/subscriptions")
        assert shown.status == status
        assert "10.0.0.7" not in shown.text
        assert "secret detail" not in shown.text
    bench.world.before_call = None
    assert owner.get("/subscriptions").status == 200


def test_the_log_tells_what_was_shown_and_no_secret_of_it(
    bench: ConsoleBench, capsys: pytest.CaptureFixture[str]
) -> None:
    furnish(bench)
    a_link(bench)
    browser = Browser(bench)
    browser.get("/open?token=t0k3n")
    browser.post("/open", token="t0k3n")
    key = bench.a_key()
    browser.post("/sign-in", key=key)
    browser.get(f"{HERE}?x=%0a%7b")
    told = capsys.readouterr().out
    for secret in ("t0k3n", key, browser.cookies["__Host-hookkeeper"], KEY.subscription_id):
        assert secret not in told


# ── weight ───────────────────────────────────────────────────────────────────────────────────────


def test_a_first_load_is_under_200_kilobytes(owner: Browser) -> None:
    page = owner.get(HERE)
    assets = re.findall(r'(?:href|src)="/api/console(/static/[^"]+)"', page.text)
    assert sum(len(owner.get(path).text.encode()) for path in assets) + len(page.text.encode()) < 200_000


def test_no_page_asks_another_site_for_anything(owner: Browser) -> None:
    for path in (HERE, "/subscriptions", f"{HERE}/settings"):
        for link in re.findall(r'(?:href|src|action|hx-get)="([^"]*)"', owner.get(path).text):
            assert link.startswith(("/api/console", "#")), link
