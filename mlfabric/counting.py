"""Numbers in order, as objects that can be saved and go on: iterators of itertools cannot."""

from __future__ import annotations


class Count:
    """0, 1, 2, …, or from `first` on."""

    def __init__(self, first: int = 0) -> None:
        self._next = first

    def __iter__(self) -> Count:
        return self

    def __next__(self) -> int:
        number = self._next
        self._next += 1
        return number


class Names:
    """The prefix with 1, 2, 3, … after it."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._numbers = Count(1)

    def __iter__(self) -> Names:
        return self

    def __next__(self) -> str:
        return f"{self._prefix}{next(self._numbers)}"
