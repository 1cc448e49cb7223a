"""Every exception the library raises, split by whose fault it is."""

from __future__ import annotations


class MlfabricError(Exception):
    """Base of all errors; its text is one line fit for a user."""


class SettingError(MlfabricError):
    """A setting is missing, of the wrong type or out of range: key, value, what is allowed."""


class GridTooFine(SettingError):
    """The exact problem would need more time slots than are allowed, or none divides everything."""


class EmulationUnavailable(MlfabricError):
    """This machine forbids the namespaces that the emulated cluster is made of."""


class EmulationError(MlfabricError):
    """The emulated cluster could not be built or broke while it ran."""


class ProtocolError(MlfabricError):
    """An event or message contradicts what the receiver knows: a bug or a foreign peer."""


class SchedulerLost(MlfabricError):
    """No rank can go on: the scheduler is gone."""


class CheckpointDamaged(MlfabricError):
    """A checkpoint cannot be read, or is not as it was written."""


class GivenUp(MlfabricError):
    """This rank was held for lost: the others go on without it."""


class ModelLost(MlfabricError):
    """The server is lost, and no other host has its model."""


class NothingMoves(MlfabricError):
    """No rank has done anything for too long; tells who waits for whom."""
