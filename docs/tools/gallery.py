"""The gallery, examples that were run: `python -m docs.tools.gallery`.

An example is a program with a docstring (a title, then what it shows) that leaves a matplotlib figure in
`picture`. What it prints and its picture are committed beside it, small, with the digest of the program
they are of; the site's pages are made of these, so that building it runs nothing.
"""

import ast
import contextlib
import hashlib
import io
import re
import runpy
import sys
import time
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "gallery"


def examples() -> list[Path]:
    """The programs in the order of their names."""
    return sorted(FOLDER.glob("*.py"))


def digest(example: Path) -> str:
    """What tells a program from an edited one."""
    return hashlib.sha256(example.read_bytes()).hexdigest()[:16]


def run(example: Path) -> None:
    """Run one example and keep its picture and what it printed."""
    from understudy.report import write_picture

    printed, started = io.StringIO(), time.perf_counter()
    with contextlib.redirect_stdout(printed):
        names = runpy.run_path(str(example))
    write_picture(names["picture"], example.with_suffix(".png"))
    example.with_suffix(".txt").write_text(f"{digest(example)}\n{printed.getvalue()}")
    print(f"{example.stem}: {time.perf_counter() - started:.0f} s", flush=True)


def title_and_words(example: Path) -> tuple[str, str, str]:
    """The title, the words under it and the code of an example."""
    text = example.read_text()
    described = ast.get_docstring(ast.parse(text)) or ""
    title, _, words = described.partition("\n\n")
    code = re.sub(r'\A""".*?"""\n*', "", text, count=1, flags=re.DOTALL)
    return title.rstrip("."), words, code


def write_pages(pages: Path) -> None:
    """A page for every example, and one that shows them all."""
    folder, entries = pages / "gallery", []
    for example in examples():
        title, words, code = title_and_words(example)
        if not example.with_suffix(".txt").exists():
            raise SystemExit(f"{example.name} has no picture yet; `make gallery` makes it.")
        _, _, printed = example.with_suffix(".txt").read_text().partition("\n")
        parts = [f"# {title}", words, f"![{title}]({example.stem}.png)"]
        parts += [f"```text\n{printed.rstrip()}\n```"] if printed.strip() else []
        parts += [f"```python\n{code.rstrip()}\n```"]
        (folder / f"{example.stem}.md").write_text("\n\n".join(parts) + "\n")
        (folder / example.name).unlink()
        (folder / f"{example.stem}.txt").unlink()
        page, picture = f"{example.stem}.md", f"![{title}]({example.stem}.png)"
        entries.append(f"-   [{picture}]({page})\n\n    **[{title}]({page})**")
    head = (
        "# Gallery\n\nEvery example is a program that runs as it stands; its picture is what it drew.\n"
    )
    grid = '<div class="grid cards gallery" markdown>\n\n' + "\n\n".join(entries) + "\n\n</div>\n"
    (folder / "index.md").write_text(f"{head}\n{grid}")


def main(words: list[str]) -> int:
    """Run the examples that are named, or all whose committed outputs are of another program."""
    for example in examples():
        kept = example.with_suffix(".txt")
        old = not kept.exists() or kept.read_text().split("\n")[0] != digest(example)
        if example.stem in words or (not words and old):
            run(example)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
