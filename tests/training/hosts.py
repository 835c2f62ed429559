"""Run by the tests: one of several processes of a training, or a process alone.

``python -m tests.training.hosts FOLDER UPDATES [resume] [die]`` prints a digest of what was learnt; how
many processes there are is said by the environment.
"""

import json
import os
import signal
import sys

import jax
import numpy as np

from understudy import train
from understudy.core import partition
from understudy.devices import join_hosts
from understudy.feedbacks import EnergyDistance
from understudy.students import Implicit
from understudy.targets import two_gaussians
from understudy.teachers import mala

STEPS = 20


def main(folder: str, updates: int, words: list[str]) -> None:
    if "UNDERSTUDY_COORDINATOR" in os.environ:
        join_hosts()

    def look(chunk):
        if "die" in words and int(chunk.row["step"]) >= updates // 2:
            os.kill(os.getpid(), signal.SIGKILL)

    result = train(
        two_gaussians(),
        lambda key: Implicit(key, 1, hidden=(8,)),
        mala(0.5, steps=2, target_acceptance=0.8),
        EnergyDistance(),
        updates=updates,
        particles=8,
        chunk=STEPS,
        checkpoint_seconds=0.0,
        devices=jax.devices(),
        folder=folder,
        resume="resume" in words,
        progress=False,
        callbacks=[look],
    )
    leaves = [np.asarray(leaf).ravel() for leaf in jax.tree.leaves(partition(result.student)[0])]
    learnt = np.concatenate(leaves).tolist()
    drawn = np.asarray(result.sample(0, 4)).ravel().tolist()  # by this process alone
    print(json.dumps({"devices": len(jax.devices()), "learnt": learnt, "drawn": drawn}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3:])
