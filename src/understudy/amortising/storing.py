"""What a file keeps of a simulator: how to make it again, of functions that the reader hands over."""

from collections.abc import Mapping
from typing import Any

import equinox as eqx

from understudy.amortising.observations import Layout
from understudy.amortising.simulators import Simulator
from understudy.files import StoreError
from understudy.files.describing import describe


class StoredSimulator(eqx.Module):
    """A simulator by the name of its model and what that is called with.

    Attributes:
        name: of the model, for sentences.
        layout: of its data sets.
        dim: size of a draw.
        model: the NumPyro model; None where a file cannot hold it.
        arguments: what it is called with, ``(args, kwargs)``.
        renew: draws other arguments; None where there are none.
    """

    name: str
    layout: Any
    dim: int
    model: Any = None
    arguments: tuple = ((), {})
    renew: Any = None

    def restored(self, known: Mapping[str, Any], target: Any = None) -> Simulator:
        """The simulator given, or the one made of a model that the reader handed over."""
        if not isinstance(self.layout, Layout):
            raise StoreError(f"its layout is a {type(self.layout).__name__}")
        made = target
        if made is None:
            # What only the file names is never called.
            mine = [given for given in known.values() if given is self.model]
            theirs = self.renew is None or any(given is self.renew for given in known.values())
            if self.model is None or not mine or not theirs:
                raise StoreError(self._sentence)
            made = self._made()
        if not isinstance(made, Simulator):
            made = getattr(made, "simulator", made)
        fits = isinstance(made, Simulator) and made.target.dim == self.dim
        if not fits or made.layout != self.layout:
            raise StoreError(
                "it was trained for other data or parameters than those of the model given; give the "
                "model, or the simulator, that it was trained with"
            )
        return made

    def _made(self) -> Simulator:
        from understudy.amortising.models import simulator_of

        names = [site.name for site in self.layout.sites]
        sizes = (self.layout.least, self.layout.rows) if self.layout.varies else None
        return simulator_of(self.model, *self.arguments, names, self.renew, sizes, self.layout.missing)

    @property
    def _sentence(self) -> str:
        model = f"understudy.load(path, classes=[{self.name}]) or " if self.model is not None else ""
        return (
            f"its model {self.name} is a function, which no file holds; load it with "
            f"{model}understudy.load(path, target=simulator)"
        )


def stored(simulator: Any) -> StoredSimulator:
    """What a file keeps of a simulator."""
    if isinstance(simulator, StoredSimulator):
        return simulator
    model = getattr(simulator, "model", None)
    name = getattr(model, "__name__", type(simulator).__name__)
    bare = StoredSimulator(name, simulator.layout, simulator.target.dim)
    if model is None:
        return bare
    arguments, renew = (model.args, model.kwargs), simulator.renew
    whole = StoredSimulator(name, simulator.layout, bare.dim, model.model, arguments, renew)
    try:
        describe(whole, [], "simulator")
    except StoreError:
        return bare
    return whole
