"""What a Langevin step on the decoder of digits costs, beside a bare gradient and beside PyTorch.

Core-milliseconds of the process on a batch of 100, medians over interleaved rounds; compilation is not
counted. PyTorch is measured where it is installed (benchmarks/langevin_requirements.txt), eagerly, with
channels last and as many threads as there are cores to run on; only then is a row written to results.
Run: ``python benchmarks/langevin.py``.
"""

import argparse
import os
import statistics
import time

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from experiments.mnist.course import adam
from experiments.mnist.methods import METHODS, make_model, make_student
from experiments.rows import last_line, provenance, write_rows
from understudy.batches import Binarised
from understudy.core import bind
from understudy.teachers import Langevin
from understudy.training import Learner, Training

BATCH, STEPS, LOOP, ROUNDS, CALLS = 100, 5, 10, 7, 4
KEY = jax.random.key(0)
PIXELS = np.random.default_rng(0).integers(0, 256, (1000, 28, 28), np.uint8)
UPDATES = ("VAE", "HMC-VI, T=2", "HMC-VI, T=4", "AMC CNN-G, T=5, eta=0.2", "AVB CNN-G")


def gradient_and_chain():
    """A bare gradient in z, the decoder prepared as in a chain or not, and T Langevin steps in all."""
    arrays, rest = eqx.partition(make_model(KEY), eqx.is_array)
    ready, ready_rest = eqx.partition(make_model(KEY).prepared(), eqx.is_array)
    z = jax.random.normal(KEY, (BATCH, 32))
    x = Binarised(PIXELS, BATCH)(KEY)
    student = make_student("gaussian", KEY, 0)

    @eqx.filter_jit
    def gradient(arrays, rest):
        return jax.vmap(jax.grad(eqx.combine(arrays, rest).log_density))(z, x)

    @jax.jit
    def chain(arrays, steps):
        model, teacher = eqx.combine(arrays, rest).prepared(), Langevin(1e-3, steps)

        def one(key, z, x):
            return teacher.improve(key, lambda z: model.log_density(z, x), z[None], bind(student, x)).z

        return jax.vmap(one)(jax.random.split(KEY, BATCH), z, x)

    steps = jnp.array(STEPS)
    return {
        "gradient": lambda: gradient(ready, ready_rest),
        "gradient, not prepared": lambda: gradient(arrays, rest),
        "chain": lambda: chain(arrays, steps),
    }


def update(name):
    """Updates of a method, in a compiled loop as in training."""
    stage = METHODS[name].stages[-1]
    learner = Learner(
        stage.feedback(),
        particles=1,
        optimiser=adam(1e-3, None),
        model_optimiser=adam(1e-3, None),
        critic_optimiser=adam(1e-3, None, b1=0.5),
    )
    student, teacher = make_student(stage.encoder, KEY, len(PIXELS)), stage.teacher("root")
    data = Binarised(PIXELS, BATCH)
    training = Training(learner, make_model(KEY), student, teacher, data).compile()
    return lambda: training.advance(training.state, LOOP)[1].loss


def torch_calls():
    """The same gradient and the same VAE update in PyTorch; nothing where it is not installed."""
    try:
        import torch
    except ImportError:
        return {}
    from torch import nn
    from torch.nn import functional

    torch.set_num_threads(len(os.sched_getaffinity(0)))
    torch.manual_seed(0)
    leaky = nn.LeakyReLU(0.2)
    up = nn.ConvTranspose2d
    decoder = nn.Sequential(
        nn.Linear(32, 500), leaky, nn.Linear(500, 512), leaky, nn.Unflatten(1, (32, 4, 4)),
        up(32, 32, 5, 2, 2), leaky, up(32, 16, 5, 2, 2, 1), leaky, up(16, 1, 5, 2, 2, 1),
    ).to(memory_format=torch.channels_last)  # fmt: skip
    encoder = nn.Sequential(
        nn.Conv2d(1, 16, 5, 2, 2), leaky, nn.Conv2d(16, 32, 5, 2, 2), leaky,
        nn.Conv2d(32, 32, 5, 2, 2), leaky, nn.Flatten(), nn.Linear(512, 500), leaky, nn.Linear(500, 64),
    ).to(memory_format=torch.channels_last)  # fmt: skip
    x = (torch.rand(BATCH, 1, 28, 28) < 0.2).float().contiguous(memory_format=torch.channels_last)
    z = torch.randn(BATCH, 32)
    adam = torch.optim.Adam([*decoder.parameters(), *encoder.parameters()], 1e-3)

    def joint(z):
        bits = functional.binary_cross_entropy_with_logits(decoder(z), x, reduction="sum")
        return -bits - (z**2).sum() / 2

    def gradient():
        at = z.requires_grad_()
        return torch.autograd.grad(joint(at), at)[0]

    def step():
        mean, log_scale = encoder(x).chunk(2, 1)
        noise = torch.randn_like(mean)
        loss = -(joint(mean + log_scale.exp() * noise) + log_scale.sum()) / BATCH
        adam.zero_grad()
        loss.backward()
        adam.step()

    return {"torch gradient": gradient, "torch VAE": step}


def measure(calls):
    """Median core-milliseconds of every call, in interleaved rounds."""
    times = {name: [] for name in calls}
    for call in calls.values():
        jax.block_until_ready(call())
    for _ in range(ROUNDS):
        for name, call in calls.items():
            repeats = 1 if name in UPDATES else CALLS
            started = time.process_time()
            for _ in range(repeats):
                jax.block_until_ready(call())
            times[name].append((time.process_time() - started) / repeats * 1e3)
    return {
        name: statistics.median(values) / (LOOP if name in UPDATES else 1)
        for name, values in times.items()
    }


def main():
    argparse.ArgumentParser(description=__doc__).parse_args()
    started = time.perf_counter()
    found = measure(gradient_and_chain() | {name: update(name) for name in UPDATES} | torch_calls())
    for name, value in found.items():
        print(f"{name:32s} {value:8.2f} core-ms")
    rival = {"gradient": found.get("torch gradient"), "VAE": found.get("torch VAE")}
    figures = {
        "step_over_gradient": found["chain"] / STEPS / found["gradient"],
        "gradient_over_torch": rival["gradient"] and found["gradient"] / rival["gradient"],
        "unprepared_gradient_over_torch": rival["gradient"]
        and found["gradient, not prepared"] / rival["gradient"],
        "vae_step_over_torch": rival["VAE"] and found["VAE"] / rival["VAE"],
        "core_milliseconds": found,
    }
    row = figures | provenance({"batch": BATCH}, 0, time.perf_counter() - started)
    if rival["gradient"]:
        write_rows("results/langevin.jsonl", [{"kind": "benchmark", "name": "langevin", **row}])
    last_line(row)


if __name__ == "__main__":
    main()
