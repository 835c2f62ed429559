"""Training: one update of Algorithm 1 and the loop that runs it, in the order in which data passes.

``loop`` puts a training together and runs it in chunks; ``update`` is one pure update; ``lesson`` is
the student's proposal and the teacher's improvement of it; ``recording`` is what happens between two
chunks; ``border`` refuses what cannot work.
"""

from understudy.training.loop import Interrupted, Trained, Training, train
from understudy.training.recording import Callback, Chunk, StopTraining
from understudy.training.update import Info, Learner, State

__all__ = [
    "Callback",
    "Chunk",
    "Info",
    "Interrupted",
    "Learner",
    "State",
    "StopTraining",
    "Trained",
    "Training",
    "train",
]
