"""Jobs run once each, in this process and in others, and survive their workers."""

import os
import signal
from pathlib import Path

import pytest

from understudy import IngredientError
from understudy.jobs import Job, executor_of, run_jobs


def squared(number):
    return number**2


def failing(number):
    raise ValueError(f"no {number}")


def killed_once(folder, number):
    """Kills its own process the first time it is called."""
    mark = Path(folder, f"killed-{number}")
    if number % 3 == 0 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def killed_always():
    os.kill(os.getpid(), signal.SIGKILL)


def collected(jobs, workers=None, **settings):
    found = []
    run_jobs(jobs, lambda *pair: found.append(pair), executor_of(workers), progress=False, **settings)
    return found


@pytest.mark.parametrize("workers", [None, 2])
def test_every_job_is_kept_once(workers):
    found = collected([Job(f"job {i}", squared, (i,)) for i in range(6)], workers)
    assert sorted(found) == [(f"job {i}", i**2) for i in range(6)]


def test_a_job_whose_worker_dies_runs_again(tmp_path):
    jobs = [Job(str(i), killed_once, (str(tmp_path), i)) for i in range(8)]
    found = collected(jobs, 2, tries=8)
    assert sorted(found) == [(str(i), i) for i in range(8)]
    assert len(list(tmp_path.iterdir())) == 3


def test_a_job_that_kills_every_worker_is_named():
    with pytest.raises(IngredientError, match="job 'greedy' died 2 times"):
        collected([Job("greedy", killed_always)], 1, tries=2)


@pytest.mark.parametrize("workers", [None, 1])
def test_what_a_job_raises_is_raised_after_what_is_done(workers):
    found = []
    jobs = [Job("fine", squared, (2,)), Job("bad", failing, (3,))]
    with pytest.raises(ValueError, match="no 3"):
        run_jobs(jobs, lambda *pair: found.append(pair), executor_of(workers), progress=False)
    assert found == [("fine", 4)]


def test_in_this_process_a_result_is_kept_before_the_next_job_begins():
    seen = []
    jobs = [Job(str(i), seen.append, (i,)) for i in range(2)]
    run_jobs(jobs, lambda name, _: seen.append(f"kept {name}"), progress=False)
    assert seen == [0, "kept 0", 1, "kept 1"]


@pytest.mark.parametrize("workers", [0, -1, True])
def test_workers_that_cannot_be_are_refused(workers):
    with pytest.raises(IngredientError, match="workers"):
        executor_of(workers)
