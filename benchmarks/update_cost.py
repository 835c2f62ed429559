"""What one update costs beside its parts, a hand-written kernel, and a bare loop.

All ratios are medians over interleaved rounds of one run; compilation is not counted. Every part runs
in a compiled loop of its own, as the fused update does. Run: ``python benchmarks/update_cost.py``.
"""

import argparse
import contextlib
import io
import statistics
import tempfile
import time
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp

from experiments.rows import last_line, provenance, write_rows
from understudy.core import bind
from understudy.feedbacks import JensenShannon
from understudy.networks import Critic
from understudy.students import Implicit
from understudy.targets import two_gaussians
from understudy.teachers import mala
from understudy.training import Learner, Training, train
from understudy.training.update import descend

TARGET = two_gaussians()
SETTINGS = ({"particles": 10, "steps": 5}, {"particles": 100, "steps": 10})
LOOPS, ROUNDS = 1000, 15


def prepared(particles, steps):
    feedback = JensenShannon(critic=partial(Critic, hidden=(20, 20), activation=jax.nn.relu))
    learner = Learner(feedback, particles=particles)
    return Training(learner, TARGET, Implicit(jax.random.key(1), 1), mala(0.1, steps=steps))


def loop(step, carry, given=None):
    """A compiled loop of ``step(key, carry, given) -> carry``; all it works on are arguments."""
    dynamic, static = eqx.partition((carry, given), eqx.is_array)

    @jax.jit
    def run(dynamic):
        _, given = eqx.combine(dynamic, static)

        def body(i, arrays):
            now = eqx.combine(arrays, eqx.filter(static[0], eqx.is_array, inverse=True))
            return eqx.filter(step(jax.random.fold_in(jax.random.key(2), i), now, given), eqx.is_array)

        return jax.lax.fori_loop(0, LOOPS, body, dynamic[0])

    return partial(run, dynamic)


def parts(learner, state):
    """The student's draw, the teacher's steps, the critic's step and the student's, each alone."""
    feedback, n = learner.feedback, learner.classroom.particles
    lessons, _ = learner.teach(jax.random.key(3), state)
    lesson = jax.tree.map(lambda leaf: leaf[0], lessons)

    def draw(key, z, given):
        return given.student.sample(key, None, n) + 0 * z

    def improve(key, z, given):
        proposal = bind(given.student, None)
        return given.teacher.improve(key, given.target.log_density, z, proposal).z

    def critic_step(key, carry, given):
        state, lesson = given
        loss = lambda critic: feedback.critic_loss(critic, state.target, lesson)  # noqa: E731
        return descend(learner.critic_optimiser, loss, *carry)[:2]

    def student_step(key, carry, given):
        state, lesson = given
        lesson = eqx.tree_at(lambda lesson: lesson.key, lesson, key)
        loss = lambda student: feedback.loss(student, state.critic, state.target, lesson)  # noqa: E731
        return descend(learner.optimiser, loss, *carry)[:2]

    return {
        "draw": loop(draw, lesson.before, state),
        "improve": loop(improve, lesson.before, state),
        "critic": loop(critic_step, (state.critic, state.memory["critic"]), (state, lesson)),
        "student": loop(student_step, (state.student, state.memory["student"]), (state, lesson)),
    }


def fused(learner, state):
    """The whole update."""
    return loop(lambda key, state, _: learner.update(key, state)[0], state)


def hand_written(steps, step_size=0.1):
    """MALA as one would write it for this target alone."""
    value_and_grad = jax.value_and_grad(TARGET.log_density)

    def chain(key, z):
        def step(carry, key):
            z, value, grad = carry
            noise_key, accept_key = jax.random.split(key)
            new = z + step_size * grad + jnp.sqrt(2 * step_size) * jax.random.normal(noise_key, z.shape)
            new_value, new_grad = value_and_grad(new)
            forward = jnp.sum((new - z - step_size * grad) ** 2)
            backward = jnp.sum((z - new - step_size * new_grad) ** 2)
            log_ratio = new_value - value + (forward - backward) / (4 * step_size)
            accept = jnp.log(jax.random.uniform(accept_key)) < log_ratio
            pick = lambda a, b: jnp.where(accept, a, b)  # noqa: E731
            return (pick(new, z), pick(new_value, value), pick(new_grad, grad)), jnp.exp(
                jnp.minimum(log_ratio, 0)
            )

        (z, *_), rates = jax.lax.scan(step, (z, *value_and_grad(z)), jax.random.split(key, steps))
        return z + 0 * rates.mean()

    return lambda key, z: jax.vmap(chain)(jax.random.split(key, z.shape[0]), z)


def seconds(run):
    started = time.perf_counter()
    jax.block_until_ready(run())
    return time.perf_counter() - started


def interleaved(runs):
    """Median seconds of every run over rounds in which each runs once."""
    for run in runs.values():
        jax.block_until_ready(run())
    times = {name: [] for name in runs}
    for _ in range(ROUNDS):
        for name, run in runs.items():
            times[name].append(seconds(run))
    return {name: statistics.median(values) for name, values in times.items()}


def compare_fused(particles, steps):
    training = prepared(particles, steps)
    learner, state = training.learner, training.state
    times = interleaved({"fused": fused(learner, state), **parts(learner, state)})
    return times["fused"] / sum(v for name, v in times.items() if name != "fused"), times


def compare_kernels(particles, steps):
    teacher, z = mala(0.1, steps=steps), jax.random.normal(jax.random.key(0), (particles, 1))
    proposal = bind(Implicit(jax.random.key(1), 1), None)
    hand = hand_written(steps)

    def ours(key, z, teacher):
        return teacher.improve(key, TARGET.log_density, z, proposal).z

    runs = {"blackjax": loop(ours, z, teacher), "hand": loop(lambda key, z, _: hand(key, z), z)}
    times = interleaved(runs)
    return times["blackjax"] / times["hand"], times


class Clock:
    """Wall time of whole chunks, callbacks included, without the first two."""

    def __init__(self):
        self.times = []

    def __call__(self, chunk):
        self.times.append(time.perf_counter())

    @property
    def per_chunk(self):
        return (self.times[-1] - self.times[2]) / (len(self.times) - 3)


def compare_callbacks(particles, steps, chunks=60):
    """200 updates in a chunk, bare, against ``train`` with progress, metrics and checkpoints."""
    training = prepared(particles, steps).compile()
    state = training.state

    def bare():
        now = state
        for _ in range(chunks):
            now, _ = training.advance(now, 200)

    def dressed(folder):
        clock = Clock()
        with contextlib.redirect_stderr(io.StringIO()):
            train(
                TARGET,
                state.student,
                state.teacher,
                training.learner.feedback,
                updates=200 * chunks,
                particles=particles,
                folder=folder,
                progress=True,
                callbacks=[clock],
            )
        return clock.per_chunk

    bare()
    times = {"bare": [], "callbacks": []}
    for _ in range(5):
        times["bare"].append(seconds(bare) / chunks)
        with tempfile.TemporaryDirectory() as folder:
            times["callbacks"].append(dressed(folder))
    medians = {name: statistics.median(values) for name, values in times.items()}
    return medians["callbacks"] / medians["bare"], medians


def main():
    argparse.ArgumentParser(description=__doc__).parse_args()
    started = time.perf_counter()
    measured = {"fused": {}, "kernels": {}}
    for setting in SETTINGS:
        label = "K={particles}, T={steps}".format(**setting)
        measured["fused"][label] = compare_fused(**setting)
        measured["kernels"][label] = compare_kernels(**setting)
        print(label, *measured["fused"][label], *measured["kernels"][label])
    callbacks, times = compare_callbacks(**SETTINGS[0])
    print("chunks", callbacks, times)
    figures = {
        "fused_over_parts": max(ratio for ratio, _ in measured["fused"].values()),
        "blackjax_over_hand": max(ratio for ratio, _ in measured["kernels"].values()),
        "callbacks_over_bare": callbacks,
    }
    row = {
        **figures,
        **provenance({"settings": SETTINGS, "loops": LOOPS}, 0, time.perf_counter() - started),
    }
    write_rows("results/update_cost.jsonl", [{"kind": "benchmark", "name": "update_cost", **row}])
    last_line(row)


if __name__ == "__main__":
    main()
