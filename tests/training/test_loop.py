import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import understudy
from tests.training.killable import digest, run
from understudy import CannotMoveError, IngredientError, LogDensity, Minibatches, StoreError, train
from understudy.feedbacks import ExclusiveKL, InclusiveKL
from understudy.students import DiagonalGaussian
from understudy.targets import two_gaussians
from understudy.teachers import mala
from understudy.training.recording import StopTraining

KEY = jax.random.key(0)
NORMAL = LogDensity(lambda z: -(z @ z) / 2, 2)
SHORT = {"updates": 120, "chunk": 40, "particles": 8}


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    return digest(run(tmp_path_factory.mktemp("whole")))


def kill_once(folder: Path, delay: float) -> None:
    """Start the training, wait for its first checkpoint, kill it ``delay`` seconds later."""
    command = [sys.executable, "-m", "tests.training.killable", str(folder), str(folder / "digest")]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    while process.poll() is None and not list(folder.glob("checkpoint-*")):
        time.sleep(0.005)
    time.sleep(delay)
    process.send_signal(signal.SIGKILL)
    process.wait()


def resume(folder: Path) -> str:
    (folder / "digest").unlink(missing_ok=True)
    command = [sys.executable, "-m", "tests.training.killable", str(folder), str(folder / "digest")]
    subprocess.run(command, check=True, capture_output=True)
    return (folder / "digest").read_text()


def killed_and_resumed(folder: Path, uninterrupted: str, seed: int) -> bool:
    kill_once(folder, random.Random(seed).uniform(0.0, 0.25))
    return resume(folder) == uninterrupted


def test_a_killed_run_resumes_bit_for_bit(tmp_path, uninterrupted):
    assert killed_and_resumed(tmp_path, uninterrupted, seed=1)


@pytest.mark.slow
def test_thirty_kills_resume_bit_for_bit(tmp_path, uninterrupted):
    for seed in range(30):
        folder = tmp_path / str(seed)
        folder.mkdir()
        assert killed_and_resumed(folder, uninterrupted, seed)


def interrupt(after):
    def callback(chunk):
        if chunk.row["step"] >= after:
            os.kill(os.getpid(), signal.SIGINT)

    return callback


def test_ctrl_c_saves_says_how_to_resume_and_loses_nothing(tmp_path, uninterrupted):
    with pytest.raises(KeyboardInterrupt, match="resume=True") as caught:
        run(tmp_path, callbacks=[interrupt(400)])
    assert caught.value.result.history["step"][-1] >= 400
    assert digest(run(tmp_path, resume=True)) == uninterrupted
    steps = [json.loads(line)["step"] for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert steps == sorted(set(steps))
    assert steps[-1] == 1200


def test_a_damaged_newest_checkpoint_is_skipped_with_a_word(tmp_path, uninterrupted):
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, callbacks=[interrupt(400)])
    newest = sorted(tmp_path.glob("checkpoint-*"))[-1]
    raw = bytearray(newest.read_bytes())
    raw[len(raw) // 2] ^= 1
    newest.write_bytes(bytes(raw))
    with pytest.warns(UserWarning, match=newest.name):
        result = run(tmp_path, resume=True)
    assert digest(result) == uninterrupted


def test_a_folder_in_use_is_never_overwritten(tmp_path):
    train(NORMAL, DiagonalGaussian(2), mala(0.1), InclusiveKL(), folder=tmp_path, **SHORT)
    with pytest.raises(IngredientError, match="resume=True"):
        train(NORMAL, DiagonalGaussian(2), mala(0.1), InclusiveKL(), folder=tmp_path, **SHORT)
    with pytest.raises(IngredientError, match="other settings"):
        train(
            NORMAL, DiagonalGaussian(2), mala(0.2), InclusiveKL(), folder=tmp_path, resume=True, **SHORT
        )
    with pytest.raises(IngredientError, match="another seed"):
        train(
            NORMAL,
            DiagonalGaussian(2),
            mala(0.1),
            InclusiveKL(),
            folder=tmp_path,
            resume=True,
            seed=1,
            **SHORT,
        )
    longer = {**SHORT, "updates": 200}
    more = train(
        NORMAL, DiagonalGaussian(2), mala(0.1), InclusiveKL(), folder=tmp_path, resume=True, **longer
    )
    assert more.history["step"].tolist() == [1, 40, 80, 120, 160, 200]


def test_chunks_do_not_change_what_is_learnt():
    results = [
        train(NORMAL, DiagonalGaussian(2), mala(0.1), InclusiveKL(), **{**SHORT, "chunk": chunk})
        for chunk in (40, 7)
    ]
    assert digest(results[0]) == digest(results[1])


def test_repeats_start_apart_and_stay_apart():
    result = train(
        NORMAL,
        lambda key: DiagonalGaussian(2, mean=jax.random.normal(key, (2,))),
        mala(0.5, target_acceptance=0.7),
        InclusiveKL(),
        repeats=3,
        **SHORT,
    )
    assert result.student.mean.shape == (3, 2)
    assert len(np.unique(np.asarray(result.student.mean[:, 0]))) == 3
    assert result.sample(KEY, 5).shape == (3, 5, 2)
    assert result.history["loss"].shape == (4, 3)


def test_callbacks_see_every_chunk_and_can_stop_or_replace():
    seen = []

    def stop_at_80(chunk):
        seen.append(int(chunk.row["step"]))
        if seen[-1] == 80:
            raise StopTraining
        return eqx.tree_at(lambda s: s.student.mean, chunk.state, jnp.full(2, 7.0))

    result = train(
        NORMAL, DiagonalGaussian(2), mala(0.1), InclusiveKL(), callbacks=[stop_at_80], **SHORT
    )
    assert seen == [1, 40, 80]
    assert result.student.mean.min() > 5.0


def test_minibatches_are_conditions_or_one_condition():
    data = (jnp.arange(10.0), jnp.arange(20.0).reshape(10, 2))
    alone = Minibatches(data, 4)(KEY)
    assert alone[0].shape == (4,)
    assert alone[1].shape == (4, 2)
    np.testing.assert_allclose(alone[1][:, 0], 2 * alone[0])
    together = Minibatches(data, 4, together=True)(KEY)
    assert together[1].shape == (1, 4, 2)


def test_the_progress_bar_tells_loss_acceptance_and_move(capsys):
    train(NORMAL, DiagonalGaussian(2), mala(0.1), InclusiveKL(), progress=True, **SHORT)
    shown = capsys.readouterr().err
    for word in ("loss ", "acceptance ", "move ", "120/120"):
        assert word in shown
    train(NORMAL, DiagonalGaussian(2), mala(0.1), InclusiveKL(), **SHORT)
    assert capsys.readouterr().err == ""


def test_a_start_without_density_is_named_with_its_remedy():
    target = LogDensity(lambda z: jnp.log(-(z @ z)), 2)
    with pytest.raises(CannotMoveError, match=r"LogDensity.*Start the student where"):
        train(target, DiagonalGaussian(2), mala(0.1), InclusiveKL(), **SHORT)


def test_chains_that_never_accept_are_reported():
    with (
        pytest.warns(UserWarning, match="smaller step_size"),
        pytest.raises(CannotMoveError, match="No chain of Kernel moved"),
    ):
        train(two_gaussians(), DiagonalGaussian(1), mala(1e9), InclusiveKL(), updates=2000, particles=4)


def test_training_changes_the_student_for_the_better():
    result = understudy.train(
        NORMAL,
        DiagonalGaussian(2, mean=1.0, scale=0.5),
        mala(0.3, steps=3),
        InclusiveKL(),
        updates=1500,
        optimiser=optax.adam(1e-2),
        average=0.99,
    )
    z = result.sample(KEY, 20_000)
    np.testing.assert_allclose(z.mean(0), 0.0, atol=0.1)
    np.testing.assert_allclose(z.std(0), 1.0, atol=0.1)


def rate(value: float) -> dict:
    return {"optimiser": optax.adam(optax.cosine_decay_schedule(value, 100))}


@pytest.mark.parametrize(
    ("feedback", "settings"),
    [
        (ExclusiveKL(), {}),
        (InclusiveKL(), {"pairing": "fresh"}),
        (InclusiveKL(), rate(0.02)),
        (InclusiveKL(), {"guard": False}),
        (InclusiveKL(), {"critic_optimiser": optax.adam(0.5)}),
    ],
    ids=["feedback", "pairing", "rate", "guard", "critic"],
)
def test_another_choice_does_not_resume(tmp_path, feedback, settings):
    student, teacher = DiagonalGaussian(2), mala(0.1)
    train(NORMAL, student, teacher, InclusiveKL(), folder=tmp_path, **SHORT, **rate(0.01))
    given = {**SHORT, **rate(0.01), **settings}
    with pytest.raises(IngredientError, match="other settings"):
        train(NORMAL, student, teacher, feedback, folder=tmp_path, resume=True, **given)


def test_the_same_choices_made_again_resume(tmp_path):
    for resume in (False, True):
        student, teacher = DiagonalGaussian(2), mala(0.1)
        given = {**SHORT, **rate(0.01)}
        train(NORMAL, student, teacher, InclusiveKL(), folder=tmp_path, resume=resume, **given)


def test_two_trainings_do_not_share_a_folder(tmp_path):
    def second(chunk):
        with pytest.raises(StoreError, match="in use by another process"):
            train(NORMAL, DiagonalGaussian(2), mala(0.1), InclusiveKL(), folder=tmp_path, **SHORT)

    student = DiagonalGaussian(2)
    train(NORMAL, student, mala(0.1), InclusiveKL(), folder=tmp_path, callbacks=[second], **SHORT)


def test_a_training_without_its_guard_ends_where_it_is_not_finite():
    target = LogDensity(lambda z: -(z @ z) / 2, 2)
    with pytest.raises(CannotMoveError, match="not finite"):
        train(
            target, DiagonalGaussian(2), mala(0.1), InclusiveKL(), guard=False,
            optimiser=optax.sgd(jnp.inf), **SHORT,
        )  # fmt: skip
