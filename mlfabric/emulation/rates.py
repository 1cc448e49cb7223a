"""The current rate of every host's link, shared between processes through one small mapped file."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType


class RateBoard:
    """Rates in bytes/s, float64, one a host in host order; one writer, any number of readers."""

    def __init__(self, path: Path, *, writable: bool = False) -> None:
        """Open an existing board; raises OSError when there is none."""
        with path.open("r+b" if writable else "rb") as file:
            access = mmap.ACCESS_WRITE if writable else mmap.ACCESS_READ
            self._map = mmap.mmap(file.fileno(), 0, access=access)
        self._rates = memoryview(self._map).cast("d")

    @classmethod
    def create(cls, path: Path, rates_bytes_per_s: Sequence[float]) -> RateBoard:
        """Make the file, complete from the first moment it can be seen, and open it for writing."""
        unfinished = path.with_suffix(".tmp")
        unfinished.write_bytes(struct.pack(f"{len(rates_bytes_per_s)}d", *rates_bytes_per_s))
        unfinished.rename(path)
        return cls(path, writable=True)

    def read(self) -> tuple[float, ...]:
        """Every host's current rate, bytes/s."""
        return tuple(self._rates)

    def set(self, host_index: int, rate_bytes_per_s: float) -> None:
        """Show a new rate; an aligned eight-byte store, so that readers see the old or the new."""
        self._rates[host_index] = rate_bytes_per_s

    def close(self) -> None:
        self._rates.release()
        self._map.close()

    def __enter__(self) -> RateBoard:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
