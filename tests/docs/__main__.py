"""`python -m tests.docs` (`make docs`): writes every generated page anew and says which have changed."""

from __future__ import annotations

from .pages import PAGES


def main() -> None:
    for path, text in PAGES.items():
        written = text()
        if not path.exists() or path.read_text("utf-8") != written:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(written, "utf-8")
            print(f"{path.name} has changed")


if __name__ == "__main__":
    main()
