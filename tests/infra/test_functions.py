"""Every function gets what its settings class reads, and runs as the design says."""

from typing import Any

import pytest
from hookkeeper import settings

SETTINGS: dict[str, type[settings.Settings]] = {
    "Authorizer": settings.AuthorizerSettings,
    "Api": settings.ApiSettings,
    "Console": settings.ConsoleSettings,
    "FanOut": settings.FanOutSettings,
    "Deliver": settings.DeliverSettings,
    "Contact": settings.ContactSettings,
    "Recover": settings.RecoverSettings,
    "Notify": settings.NotifySettings,
    "Sweep": settings.SweepSettings,
    "ValidateConfig": settings.ValidateConfigSettings,
    "WatchAudit": settings.WatchAuditSettings,
}


def _environ(synthesised: Any, function: str) -> dict[str, str]:
    variables = synthesised.function(function)["Environment"]["Variables"]
    return {name: synthesised.literal(value) for name, value in variables.items()}


def test_every_function_is_in_the_outputs_and_has_a_settings_class(prod: Any) -> None:
    assert set(prod.outputs("Function")) == set(SETTINGS)
    assert set(prod.outputs("Function").values()) == set(prod.of("AWS::Lambda::Function"))


@pytest.mark.parametrize("function, class_", SETTINGS.items())
def test_a_function_can_load_its_settings_from_what_the_stack_gives_it(
    prod: Any, local: Any, function: str, class_: type[settings.Settings]
) -> None:
    for stage, synthesised in (("prod", prod), ("local", local)):
        environ = _environ(synthesised, function)
        loaded = class_.load(environ)
        assert loaded.stage == stage
        assert loaded.environment().items() <= environ.items()


@pytest.mark.parametrize("function, class_", SETTINGS.items())
def test_a_function_is_given_no_variable_that_its_settings_do_not_read(
    prod: Any, function: str, class_: type[settings.Settings]
) -> None:
    given = {name for name in _environ(prod, function) if name.startswith("HOOKKEEPER_")}
    assert given <= {f"HOOKKEEPER_{field.upper()}" for field in class_.model_fields}


def test_each_setting_points_at_the_table_of_its_name(prod: Any) -> None:
    tables = {f"HOOKKEEPER_{name.upper()}_TABLE": f"<{id_}>" for name, id_ in prod.outputs("Table").items()}
    for function in SETTINGS:
        for name, value in _environ(prod, function).items():
            if name.endswith("_TABLE"):
                assert value == tables[name]


def test_each_setting_points_at_the_queue_of_its_name(prod: Any) -> None:
    queues = {
        f"HOOKKEEPER_{name.upper()}_QUEUE_URL": f"<{id_}>" for name, id_ in prod.outputs("Queue").items()
    }
    for function in SETTINGS:
        for name, value in _environ(prod, function).items():
            if name.endswith("_QUEUE_URL"):
                assert value == queues[name]


def test_production_functions_know_no_private_address(prod: Any) -> None:
    for function in ("Api", "Deliver", "Contact"):
        environ = _environ(prod, function)
        assert environ["HOOKKEEPER_ALLOWED_PRIVATE_CIDRS"] == environ["HOOKKEEPER_ALLOWED_HOSTS"] == ""
        assert "HOOKKEEPER_EXTRA_CA_FILE" not in environ


def test_the_embedded_stage_trusts_its_own_authority_where_endpoints_are_reached(local: Any) -> None:
    for function in ("Deliver", "Contact"):
        assert _environ(local, function)["HOOKKEEPER_EXTRA_CA_FILE"] == "/ca.pem"


def test_our_own_api_is_refused_as_an_endpoint_by_all_who_reach_out(prod: Any) -> None:
    for function in ("Api", "Deliver", "Contact"):
        assert ".execute-api." in _environ(prod, function)["HOOKKEEPER_OWN_HOSTS"]


@pytest.mark.parametrize("function", SETTINGS)
def test_a_function_runs_python_313_on_arm_and_logs_json_for_ninety_days(prod: Any, function: str) -> None:
    properties = prod.function(function)
    assert (properties["Runtime"], properties["Architectures"]) == ("python3.13", ["arm64"])
    assert properties["LoggingConfig"]["LogFormat"] == "JSON"
    log_group = prod.resources[properties["LoggingConfig"]["LogGroup"]["Ref"]]["Properties"]
    assert log_group["RetentionInDays"] == 90


@pytest.mark.parametrize("function", SETTINGS)
def test_no_function_reserves_concurrency_which_a_new_account_does_not_have(prod: Any, function: str) -> None:
    assert "ReservedConcurrentExecutions" not in prod.function(function)


@pytest.mark.parametrize("function", ["FanOut", "Deliver", "Contact", "Recover", "Sweep"])
def test_lambda_does_not_take_our_retries_for_a_runaway_loop(prod: Any, function: str) -> None:
    assert prod.function(function)["RecursiveLoop"] == "Allow"


def test_an_api_call_is_answered_before_the_gateway_gives_up(prod: Any) -> None:
    for function in ("Api", "Console"):
        assert prod.function(function)["Timeout"] <= 29


def test_the_embedded_aws_gets_our_layer_alone_for_whatever_machine_it_is(local: Any) -> None:
    for function in SETTINGS:
        properties = local.function(function)
        assert len(properties["Layers"]) == 1
        assert "Architectures" not in properties


def test_a_function_is_shipped_with_both_layers(prod: Any) -> None:
    assert all(len(prod.function(function)["Layers"]) == 2 for function in SETTINGS)
