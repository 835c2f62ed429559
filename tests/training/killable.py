"""A short training to be killed: python killable.py FOLDER DIGEST_FILE."""

import hashlib
import sys
from pathlib import Path

import equinox as eqx
import jax
import numpy as np

from understudy import train
from understudy.feedbacks import JensenShannon
from understudy.students import Implicit
from understudy.targets import two_gaussians
from understudy.teachers import mala


def run(folder, **settings):
    return train(
        two_gaussians(),
        lambda key: Implicit(key, 1, hidden=(8,)),
        mala(0.5, steps=2, target_acceptance=0.8),
        JensenShannon(),
        updates=1200,
        particles=8,
        chunk=40,
        average=0.99,
        folder=folder,
        checkpoint_seconds=0.0,
        **settings,
    )


def digest(result):
    leaves = jax.tree.leaves(eqx.filter(result.state, eqx.is_inexact_array))
    return hashlib.sha256(b"".join(np.asarray(leaf).tobytes() for leaf in leaves)).hexdigest()


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(digest(run(sys.argv[1], resume=True)))
