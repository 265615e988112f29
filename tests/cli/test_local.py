"""The local stack's commands say what runs without giving its key away."""

from tests.cli.conftest import OPERATOR_KEY, Bench


def test_a_stack_that_is_not_up_is_not_found(bench: Bench) -> None:
    ran = bench.run("status")
    assert ran.code == 3
    assert "hookkeeper up" in ran.out
    assert bench.run("status", "--json").json == {"up": False}


def test_a_stack_that_does_not_run_needs_no_stopping(bench: Bench) -> None:
    assert bench.run("down", "--json").json == {"stopped": False}


def test_a_stack_file_left_by_a_crash_is_no_stack(bench: Bench) -> None:
    bench.has_local_stack()
    ran = bench.run("status")
    assert ran.code == 3
    assert OPERATOR_KEY not in ran.out + ran.err
