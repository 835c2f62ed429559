"""Every public name: of the package, and of the namespaces that it lists."""

import importlib
import inspect
from typing import Any

import understudy

NAMESPACES = [name for name in understudy.__all__ if inspect.ismodule(getattr(understudy, name))]


def names_of(room: str) -> dict[str, Any]:
    """Public names of a room, with what they stand for."""
    module = importlib.import_module(room)
    every = getattr(module, "__all__", None) or [
        name
        for name, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == room and not name.startswith("_")
    ]
    found = {name: getattr(module, name) for name in every}
    return {name: value for name, value in found.items() if not inspect.ismodule(value)}


def public() -> dict[str, Any]:
    """All of them by their dotted names."""
    rooms = ["understudy", *(f"understudy.{name}" for name in NAMESPACES)]
    return {f"{room}.{name}": value for room in rooms for name, value in names_of(room).items()}
