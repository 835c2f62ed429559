"""Many jobs, one after the other or side by side: fits of many targets, seeds, splits, methods.

Anything that speaks ``concurrent.futures.Executor`` runs them: this process, processes of this machine,
or a cluster of Dask. A job is named by what it does, so that what is done already can be left out; its
result is handed over the moment it comes; and a job whose worker died is run again.
"""

import multiprocessing
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import (
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    ProcessPoolExecutor,
    as_completed,
)
from typing import Any, NamedTuple

from tqdm import tqdm

from understudy.checks import calling, function, several, shown, whole
from understudy.core import IngredientError

_MOST_WORKERS = 10_000


class Job(NamedTuple):
    """A call of a function that gives the same whenever it is made.

    Attributes:
        name: of what it does; no two jobs share one.
        function: of a module, so that other processes find it.
        arguments: what it is called with.
    """

    name: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...] = ()


class Here(Executor):
    """Runs every job at once, in this process."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future:
        """The result of the call, or what it raised."""
        future: Future = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


def executor_of(workers: int | str | None) -> Callable[[], Executor]:
    """What opens an executor.

    Args:
        workers: None runs jobs in this process, a number in so many processes of this machine; "local"
            starts a Dask cluster on this machine, an address such as "tcp://10.0.0.1:8786" joins one.
    """
    if workers is None:
        return Here
    if isinstance(workers, str) and not workers.isdecimal():
        return lambda: _dask(workers)
    count = int(workers) if isinstance(workers, str) else workers
    if type(count) is not int or not 1 <= count <= _MOST_WORKERS:
        raise IngredientError(
            f'workers is a number of processes, at most {_MOST_WORKERS}, "local" or the address of a '
            f"cluster; {shown(workers)} came."
        )
    # A fork of a process in which JAX runs may hang.
    spawned = multiprocessing.get_context("spawn")
    return lambda: ProcessPoolExecutor(count, mp_context=spawned)


def _dask(address: str) -> Executor:
    try:
        from dask.distributed import Client  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise IngredientError(
            "A cluster needs Dask; install understudy[cluster], or give a number of processes."
        ) from error
    if address == "local":
        return _Cluster(Client(processes=True, threads_per_worker=1))
    try:
        return _Cluster(Client(address))
    except (OSError, ValueError, TypeError) as error:
        raise IngredientError(
            f"No cluster of Dask answers at {shown(address)} ({type(error).__name__}); give the address "
            "of its scheduler, such as tcp://10.0.0.1:8786."
        ) from error


class _Cluster(Executor):
    """A Dask client as an executor that is left when it is no longer needed."""

    def __init__(self, client: Any):
        self.client, self.inner = client, client.get_executor(pure=False, retries=3)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future:
        """A future of the cluster."""
        return self.inner.submit(fn, *args, **kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Leave the cluster; one that was started here ends with it."""
        self.inner.shutdown(wait=wait and not cancel_futures)
        self.client.close()


def run_jobs(
    jobs: Iterable[Job],
    keep: Callable[[str, Any], None],
    open_executor: Callable[[], Executor] = Here,
    *,
    tries: int = 3,
    progress: bool | None = None,
) -> None:
    """Run jobs and hand over what each gives, in the order in which they end.

    An executor that broke because a worker died is opened again for the jobs that are left, ``tries``
    times for each of them. What a job raises ends the run once those that had begun are kept.

    Args:
        jobs: with names of their own.
        keep: called with the name and the result of each job, once, in this process.
        open_executor: see :func:`executor_of`.
        tries: how often a job may lose its worker.
        progress: show a bar; None shows one in a terminal only.

    Examples:
        >>> from understudy.jobs import Job, run_jobs
        >>> found = {}
        >>> run_jobs([Job("two", max, (1, 2)), Job("five", max, (5, 3))], found.__setitem__)
        >>> found
        {'two': 2, 'five': 5}
    """
    with calling("jobs are gone through one after the other"):
        listed = list(jobs) if isinstance(jobs, Iterable) else jobs
    left = {job.name: job for job in several("jobs", Job, "Job(name, function)", listed)}
    if len(left) < len(listed):
        names = [job.name for job in listed]
        twice = next(name for name in names if names.count(name) > 1)
        raise IngredientError(f"Every job has a name of its own; {shown(twice)} came more than once.")
    function("keep", keep)
    function("open_executor", open_executor)
    whole("tries", tries)
    lost = dict.fromkeys(left, 0)
    with tqdm(total=len(left), disable=None if progress is None else not progress) as bar:
        while left:
            with _opened(open_executor) as executor:
                failed = _run_once(executor, left, keep, bar)
            if failed is not None:
                raise failed
            for name in left:
                lost[name] += 1
                if lost[name] >= tries:
                    raise IngredientError(
                        f"The worker of job {name!r} died {tries} times; it may need more memory than "
                        "there is. Run it again with fewer workers."
                    )


def _opened(open_executor: Callable[[], Executor]) -> Executor:
    with calling("open_executor is a function without arguments that opens an executor"):
        executor = open_executor()
    if not (hasattr(executor, "submit") and hasattr(executor, "__exit__")):
        raise IngredientError(
            "open_executor opens an executor such as concurrent.futures.ProcessPoolExecutor(); it gave "
            f"{shown(executor)}."
        )
    return executor


def _run_once(
    executor: Executor, left: dict[str, Job], keep: Callable[[str, Any], None], bar: tqdm
) -> Exception | None:
    """Run the jobs that are left until all ended or the executor broke; what one of them raised."""
    failed: Exception | None = None
    for name, future in _ended(executor, list(left.values())):
        try:
            result = future.result()
        except BrokenExecutor:
            break
        except CancelledError:
            continue
        except Exception as error:
            failed = failed or error
            executor.shutdown(wait=False, cancel_futures=True)
            continue
        with calling("keep is a function of the name of a job and of what it gave"):
            keep(name, result)
        del left[name]
        bar.update()
    return failed


def _ended(executor: Executor, jobs: list[Job]) -> Iterator[tuple[str, Future]]:
    """Jobs as they end; in this process each begins when the one before has been kept."""
    if isinstance(executor, Here):
        for job in jobs:
            yield job.name, executor.submit(job.function, *job.arguments)
        return
    futures = {executor.submit(job.function, *job.arguments): job.name for job in jobs}
    for future in as_completed(futures):
        yield futures[future], future
