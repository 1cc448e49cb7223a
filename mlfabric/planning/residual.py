"""Residual bandwidth of every link, and reservations on paths [paper]."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mlfabric.planning.profile import Piece, Profile, lowest
from mlfabric.topology import Link, path


@dataclass(frozen=True)
class Residual:
    """A value: reserving returns a new one and leaves this one as it was."""

    links: Mapping[Link, Profile]

    def pieces(self, src: str, dst: str, ready: float, n_bytes: float) -> tuple[Piece, ...]:
        """The stretches in which a transfer would run; none when src and dst are one host."""
        links = path(src, dst)
        if not links:
            return ()
        return lowest([self.links[link] for link in links]).pieces(ready, n_bytes)

    def finish(self, src: str, dst: str, ready: float, n_bytes: float) -> float:
        """t_end: when the last byte arrives; `ready` itself when src and dst are one host."""
        pieces = self.pieces(src, dst, ready, n_bytes)
        return pieces[-1].end if pieces else ready

    def minus(self, src: str, dst: str, pieces: tuple[Piece, ...]) -> Residual:
        """What is left on every link of the path after the pieces are reserved."""
        if not pieces:
            return self
        changed = {link: self.links[link].minus(pieces) for link in path(src, dst)}
        return Residual({**self.links, **changed})
