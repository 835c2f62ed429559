"""A notebook for every quickstart, made of its page: `python -m docs.tools.notebooks`."""

import json
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
QUICKSTARTS = ROOT / "docs" / "quickstart"
_BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)


def notebook(page: str) -> str:
    """The text of a notebook: what stands between blocks of Python as words, the blocks as code."""
    cells: list[dict[str, Any]] = []
    for i, part in enumerate(_BLOCK.split(page)):
        if part.strip():
            kind = "code" if i % 2 else "markdown"
            cells.append(_cell(kind, part.strip(), len(cells)))
    about = {"language_info": {"name": "python"}, "kernelspec": _KERNEL}
    whole = {"cells": cells, "metadata": about, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


_KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}


def _cell(kind: str, text: str, number: int) -> dict[str, Any]:
    cell = {
        "cell_type": kind,
        "id": f"cell-{number}",
        "metadata": {},
        "source": text.splitlines(keepends=True),
    }
    return cell | ({"execution_count": None, "outputs": []} if kind == "code" else {})


def write(folder: Path) -> None:
    """Write all notebooks into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for page in sorted(QUICKSTARTS.glob("*.md")):
        (folder / f"{page.stem}.ipynb").write_text(notebook(page.read_text()))


if __name__ == "__main__":
    write(ROOT / "docs" / "notebooks")
    sys.exit(0)
