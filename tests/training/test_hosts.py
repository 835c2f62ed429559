"""Work of several processes of this machine, joined over loopback, and of the workers of a cluster."""

import time

import pytest

from benchmarks.many_processes import WORKS, agree, ended, kill_workers, move, started
from understudy import IngredientError
from understudy.devices import join_hosts


@pytest.mark.slow
@pytest.mark.parametrize("name", WORKS)
def test_two_processes_do_what_one_does(tmp_path, name):
    found = agree(name, tmp_path)
    assert found["between"] == 0
    assert found["difference"] < 1e-4


@pytest.mark.slow
def test_a_run_moves_between_processes_and_devices(tmp_path):
    assert move(tmp_path)["difference"] < 1e-4


@pytest.mark.slow
def test_a_process_that_dies_ends_the_other_and_the_run_goes_on(tmp_path):
    survivor, dead = started("mixture", tmp_path, 400, hosts=2, dying=1)
    dead.word(240)
    began = time.monotonic()
    told = survivor.word(90)
    assert time.monotonic() - began < 60
    assert survivor.process.returncode not in (0, None)
    assert "resume=True" in told or "fatal errors" in told, told[-2000:]
    first, second = ended(started("mixture", tmp_path, 400, hosts=2))
    assert first["found"] == second["found"]


@pytest.mark.slow
def test_a_worker_of_a_cluster_that_dies_loses_and_doubles_no_row():
    pytest.importorskip("distributed")
    found = kill_workers(2, 0)
    assert found == {"kills": 2, "complete": 2, "doubled": 0}


@pytest.mark.parametrize(
    ("words", "said"),
    [({"processes": 0}, "processes is a whole number"), ({"process": -1}, "process is a whole number")],
)
def test_numbers_that_cannot_be_get_a_sentence(words, said):
    with pytest.raises(IngredientError, match=said):
        join_hosts("127.0.0.1:1", **words)


def test_a_word_in_the_environment_gets_a_sentence(monkeypatch):
    monkeypatch.setenv("UNDERSTUDY_PROCESSES", "two")
    with pytest.raises(IngredientError, match="UNDERSTUDY_PROCESSES is a whole number"):
        join_hosts("127.0.0.1:1")


def test_joining_too_late_gets_a_sentence():
    import jax

    jax.devices()
    with pytest.raises(IngredientError, match="before JAX is used"):
        join_hosts("127.0.0.1:1", 2, 0)
