"""Run the quickstart's blocks in an empty folder: ``python run_quickstart.py SURROUNDINGS [first]``.

With "first" only the first block is run, a fit and its draws. The fit is shorter than a user's, with
fewer draws, and NUTS is not timed; everything else is as the page says.
"""

import dataclasses
import os
import re
import sys
import tempfile
import threading
import traceback
import types
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "quickstart" / "posterior.md"
SETTINGS = {
    "plain": (),
    "x64": ("jax_enable_x64", True),
    "strict promotion": ("jax_numpy_dtype_promotion", "strict"),
    "debug_nans": ("jax_debug_nans", True),
}


def page() -> None:
    """All blocks but the last, which is for another process."""
    import understudy
    from understudy.fitting import fit
    from understudy.posterior import cost

    cost.measure_nuts = lambda *_: cost.NutsCost(1.0, 100.0)

    def short(target):
        made = fit(target, budget=3.0, flows=False, cache=False, verbose=False)
        # Without its verdict the student's own draws are given, which cost no moves.
        return dataclasses.replace(made, verdict=None)

    understudy.fit = short
    module = types.ModuleType("quickstart_page")
    sys.modules[module.__name__] = module
    text = PAGE.read_text().replace("100_000", "2_000")
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)[:-1]
    for block in blocks[:1] if "first" in sys.argv else blocks:
        exec(compile(block, "quickstart", "exec"), vars(module))
    assert vars(module)["draws"]["mu"].shape == (2000,)
    if "first" in sys.argv:
        return
    assert vars(module)["whole"].target.dim == 10
    assert -1 < vars(module)["corrected"].draws["mu"].mean() < 10


def in_threads() -> None:
    """Fits, draws and files by four threads at once."""
    import jax.numpy as jnp

    import understudy

    failed: list[BaseException] = []

    def work(i: int) -> None:
        try:
            target = understudy.LogDensity(lambda z: -0.5 * jnp.sum((z - i) ** 2), 2)
            made = understudy.fit(target, budget=2.0, flows=False, cache=False, verbose=False)
            made.save(f"{i}.safetensors")
            draws = understudy.load(f"{i}.safetensors").sample(i, 20_000)["z"]
            assert abs(draws.mean(0) - i).max() < 0.15
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]


def forked() -> None:
    """The page in a child that was forked after everything had been imported."""
    import understudy.fitting
    import understudy.targets.numpyro
    import understudy.teachers  # noqa: F401

    child = os.fork()
    if child == 0:
        code = 1
        try:
            page()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def main(surroundings: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        if surroundings in SETTINGS:
            if SETTINGS[surroundings]:
                import jax

                jax.config.update(*SETTINGS[surroundings])
            page()
        else:
            {"threads": in_threads, "fork after import": forked}[surroundings]()
        os.chdir("/")


if __name__ == "__main__":
    main(sys.argv[1])
