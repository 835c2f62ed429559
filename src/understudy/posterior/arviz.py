"""Posteriors for ArviZ: named draws, densities, predictions and pointwise likelihoods."""

from collections.abc import Mapping
from functools import partial
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np

from understudy.core import IngredientError, Key, Student, Target
from understudy.numerics import in_blocks, log_densities
from understudy.posterior.draws import named_rows, widened
from understudy.posterior.naming import renamed

Kind = Literal["datatree", "inferencedata"]
Arrays = dict[str, np.ndarray]

_SAMPLES = ("chain", "draw")


@runtime_checkable
class Observing(Protocol):
    """A target that is a model of data: it can predict them and weigh every one."""

    def observed(self) -> Arrays:
        """The data by the names of their sites."""
        ...

    def predict(self, key: Key, draws: Arrays, *args: Any, **kwargs: Any) -> Arrays:
        """New data for every draw of the named sites, at other arguments of the model if given."""
        ...

    def log_likelihood(self, draws: Arrays) -> Arrays:
        """Log likelihood of every datum for every draw."""
        ...

    def axes(self) -> tuple[dict[str, list[Any]], dict[str, list[str | None]]]:
        """Coordinates by the name of their axis, and the names of the axes of every site."""
        ...


def to_arviz(
    key: Key,
    target: Target,
    student: Student,
    z: np.ndarray,
    chains: int,
    kind: Kind,
    predictive: bool,
    log_likelihood: bool,
) -> Any:
    """Groups of ArviZ from flat draws; the rows are dealt to ``chains`` labels."""
    sites = named_rows(target, z)
    log_p, log_q = in_blocks(partial(log_densities, target, student), z)
    stats = {"lp": log_p} if log_q is None else {"lp": log_p, "log_student": log_q}
    drawn = {"posterior": sites, "sample_stats": stats}
    observed: Arrays = {}
    coordinates, axes = {}, {}
    if isinstance(target, Observing):
        observed, (coordinates, axes) = target.observed(), target.axes()
        if predictive and observed:
            drawn["posterior_predictive"] = target.predict(key, sites)
        if log_likelihood and observed:
            known = target.log_likelihood(sites)
            drawn |= {"log_likelihood": known} if known else {}
    groups = {name: _dealt(group, chains) for name, group in drawn.items()}
    names = _names(groups | {"observed_data": observed}, axes)
    layout = _Layout(names, coordinates, axes)
    made = {name: layout.dataset(group, _SAMPLES) for name, group in groups.items()}
    return _as(kind, made | ({"observed_data": layout.dataset(observed)} if observed else {}))


class _Layout:
    """How arrays by name become variables with named axes."""

    def __init__(
        self,
        names: Mapping[str, str],
        coordinates: Mapping[str, list[Any]],
        axes: Mapping[str, list[str | None]],
    ):
        self.names, self.coordinates, self.axes = names, coordinates, axes

    def dataset(self, group: Arrays, first: tuple[str, ...] = ()) -> Any:
        import xarray

        made, sizes = {}, {}
        for name, value in group.items():
            axes = [*first, *self._axes_of(name, value.shape[len(first) :])]
            attributes = {} if self.names[name] == name else {"site": name}
            made[self.names[name]] = xarray.Variable(axes, value, attributes)
            sizes |= dict(zip(axes, value.shape, strict=True))
        labels = {axis: self._labels(axis, size) for axis, size in sizes.items()}
        return xarray.Dataset(made, labels)

    def _axes_of(self, name: str, shape: tuple[int, ...]) -> list[str]:
        """The axes that the model names where their sizes agree; numbered ones for the rest."""
        named = self.axes.get(name, [])
        axes = [f"{self.names[name]}_dim_{i}" for i in range(len(shape))]
        for i, (axis, size) in enumerate(zip(named, shape, strict=False)):
            known = () if axis is None else self.coordinates.get(axis, ())
            if axis is not None and axis not in axes and len(known) == size:
                axes[i] = axis
        return axes

    def _labels(self, axis: str, size: int) -> Any:
        given = self.coordinates.get(axis, ())
        return list(given) if len(given) == size else np.arange(size)


def _dealt(group: Arrays, chains: int) -> Arrays:
    # A length is never left to NumPy, which cannot tell it where a site is empty.
    return {
        name: widened(v).reshape(chains, len(v) // chains, *np.shape(v)[1:]) for name, v in group.items()
    }


def _names(groups: Mapping[str, Arrays], axes: Mapping[str, list[str | None]]) -> dict[str, str]:
    every = list(dict.fromkeys(name for group in groups.values() for name in group))
    taken = {*_SAMPLES, *(axis for names in axes.values() for axis in names if axis)}
    numbered = {f"{name}_dim_{i}" for name in every for i in range(8)}
    return renamed(every, lambda name: "/" not in name and name != "", "ArviZ", taken | numbered)


def _as(kind: Kind, groups: dict[str, Any]) -> Any:
    if kind == "inferencedata":
        try:
            import arviz  # pyright: ignore[reportMissingImports]

            return arviz.InferenceData(**groups)
        except (ImportError, AttributeError) as error:
            raise IngredientError(
                "kind='inferencedata' needs ArviZ before version 1 (pip install 'arviz<1'); leave kind "
                "out to have a DataTree."
            ) from error
    import xarray

    return xarray.DataTree.from_dict({f"/{name}": group for name, group in groups.items()})
