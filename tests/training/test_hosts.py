"""One training over several processes of this machine, joined over loopback."""

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from understudy import IngredientError
from understudy.devices import join_hosts

ROOT = Path(__file__).parents[2]


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def started(folder, updates, *words, hosts=1, dying=None, devices=1):
    """Processes at work; ``dying`` is the number of one that kills itself half way."""
    address, processes = f"127.0.0.1:{free_port()}", []
    for i in range(hosts):
        env = os.environ | {"JAX_NUM_CPU_DEVICES": str(devices)}
        if hosts > 1:
            env |= {"UNDERSTUDY_COORDINATOR": address, "UNDERSTUDY_PROCESSES": str(hosts)}
            env |= {"UNDERSTUDY_PROCESS": str(i)}
        given = [*words, "die"] if i == dying else words
        command = [sys.executable, "-m", "tests.training.hosts", str(folder), str(updates), *given]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        processes.append(subprocess.Popen(command, cwd=ROOT, env=env, text=True, **pipes))
    return processes


def ended(processes):
    found = []
    for process in processes:
        out, err = process.communicate(timeout=240)
        assert process.returncode == 0, err[-2000:]
        found.append(json.loads(out.splitlines()[-1]))
    return found


@pytest.mark.slow
def test_two_processes_learn_what_one_does_and_go_on_elsewhere(tmp_path):
    one = ended(started(tmp_path / "one", 80))[0]
    first, second = ended(started(tmp_path / "two", 80, hosts=2))
    assert first["devices"] == second["devices"] == 2
    assert first["drawn"] == second["drawn"]
    np.testing.assert_allclose(first["learnt"], one["learnt"], rtol=1e-4, atol=1e-5)
    rows = (tmp_path / "two" / "metrics.jsonl").read_text().splitlines()
    assert len(rows) == len((tmp_path / "one" / "metrics.jsonl").read_text().splitlines())
    # Two processes begin, one goes on, then one with eight devices.
    ended(started(tmp_path / "moved", 40, hosts=2))
    ended(started(tmp_path / "moved", 60, "resume"))
    moved = ended(started(tmp_path / "moved", 80, "resume", devices=8))[0]
    np.testing.assert_allclose(moved["learnt"], one["learnt"], rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_a_process_that_dies_ends_the_other_and_the_run_goes_on(tmp_path):
    survivor, dead = started(tmp_path, 400, hosts=2, dying=1)
    dead.communicate(timeout=240)
    began = time.monotonic()
    _, err = survivor.communicate(timeout=90)
    assert time.monotonic() - began < 60
    assert survivor.returncode not in (0, None)
    assert "resume=True" in err or "heartbeat" in err, err[-2000:]
    first, second = ended(started(tmp_path, 400, "resume", hosts=2))
    assert first["learnt"] == second["learnt"]


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
