"""Command-line overrides, checked and composed before Hydra's own run starts.

Hydra reports bad overrides in several lines or with a traceback; here each is refused in one line.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import entry_points
from importlib.resources import files
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf

from experiments.allowed import shown, unknown_key
from experiments.paths import CONF, ROOT
from experiments.resolvers import register_resolvers
from experiments.schema import SECTIONS, VARIANTS, RunConfig, from_omegaconf
from experiments.sweep_settings import sweep_settings
from mlfabric.errors import SettingError

GROUPS = (*SECTIONS, "experiment")
VARYING = ("workload", "policy", "replication", "fault", "engine", "experiment")
"""Groups whose choices have different keys; those of every other group have the same ones."""


@functools.cache
def _added() -> tuple[str, ...]:
    """Packages of others that hold settings."""
    return tuple(sorted(point.value for point in entry_points(group="mlfabric.conf")))


def search_path() -> list[str]:
    """The override that lets Hydra find settings of other packages, where there are any."""
    if not _added():
        return []
    return [f"hydra.searchpath=[{','.join(f'pkg://{package}' for package in _added())}]"]


@functools.cache
def choices(group: str) -> list[str]:
    """Names of the files in a group's folders, those of other packages included."""
    folders = [CONF / group, *(files(package) / group for package in _added())]
    names = [file.name for folder in folders if folder.is_dir() for file in folder.iterdir()]
    return sorted(name.removesuffix(".yaml") for name in names if name.endswith(".yaml"))


def validate(arguments: Sequence[str], multirun: bool) -> list[RunConfig]:
    """The settings of every job that these overrides start, in order.

    Raises SettingError, in one line, at the first bad override or setting.
    """
    overrides = [_parsed(argument) for argument in arguments]
    for override in overrides:
        _check_form(override, multirun)
        _check_choice(override)
    with _composer():
        if not multirun:
            return [_job([str(override.input_line) for override in overrides], "hydra.run.dir")]
        swept = [_swept(overrides) + launch for launch in _launches(overrides)]
        jobs = [job for launch in swept for job in BasicSweeper.split_arguments(launch, None)[0]]
        return [_job(job, "hydra.sweep.dir") for job in jobs]


def launches(arguments: Sequence[str]) -> list[tuple[str, ...]]:
    """Overrides of the sweep of each variant of the chosen experiment: one sweep if it has none.

    A variant that the command line contradicts is left out, one of several values that it gives
    is the variant's. Raises SettingError where no variant is left.
    """
    overrides = [_parsed(argument) for argument in arguments]
    with _composer():
        found = _launches(overrides)
    return [tuple(str(override.input_line) for override in launch) for launch in found]


def fixed(arguments: Sequence[str]) -> list[str]:
    """The overrides that name one value."""
    return [text for text in arguments if not _parsed(text).is_sweep_override()]


def composed(overrides: Sequence[str] = ()) -> DictConfig:
    """The configuration under these overrides, Hydra's own part included."""
    with _composer():
        return _compose(tuple(overrides))


@contextmanager
def _composer() -> Iterator[None]:
    register_resolvers()
    with initialize_config_dir(str(CONF), version_base="1.3"):
        yield


@functools.cache
def _compose(overrides: tuple[str, ...]) -> DictConfig:
    try:
        return compose("config", [*overrides, *search_path()], return_hydra_config=True)
    except HydraException as error:
        reason = str(error.__cause__ or error).splitlines()[0]
        raise SettingError(f"{' '.join(overrides)}: {reason}") from None


def _parsed(argument: str) -> Override:
    key, equals, value = argument.partition("=")
    if argument.startswith(("+", "~")):
        raise SettingError(
            f"{argument}: settings can be changed, not added or deleted; use key=value"
        )
    if not equals or not re.fullmatch(r"[\w/]+([.@:][\w/]+)*", key):
        raise SettingError(f"{argument}: must be of the form key=value")
    try:
        return OverridesParser.create().parse_override(argument)
    except HydraException:
        raise SettingError(
            f"{argument}: cannot be read; quote the value for Hydra and the whole for the shell:"
            f" '{key}=\"{value}\"'"
        ) from None


def _check_form(override: Override, multirun: bool) -> None:
    if override.package is not None:
        raise SettingError(f"{override.input_line}: must be key=value, without @package")
    if override.is_sweep_override() and not multirun:
        raise SettingError(f"{override.input_line}: names several values; a sweep takes -m")
    if override.is_sweep_override() and not override.is_discrete_sweep():
        raise SettingError(f"{override.input_line}: must be a list a,b,c or range(start,stop)")


def _check_choice(override: Override) -> None:
    key = override.key_or_group
    if key not in GROUPS:
        return
    for value in _values(override):
        if value not in choices(key):
            allowed = ", ".join(choices(key))
            raise SettingError(f"{key}={shown(value)}: unknown choice; must be one of {allowed}")


def _values(override: Override) -> list[Any]:
    if override.is_sweep_override():
        return list(override.sweep_string_iterator())
    return [override.value()]


def _swept(overrides: list[Override]) -> list[Override]:
    """The sweep that the chosen experiment file asks for."""
    params = _compose(_choices_among(overrides)).hydra.sweeper.params
    return [_parsed(f"{key}={value}") for key, value in (params or {}).items()]


def _choices_among(overrides: list[Override]) -> tuple[str, ...]:
    fixed = [str(override.input_line) for override in overrides if not override.is_sweep_override()]
    return tuple(text for text in fixed if _key(text) in GROUPS)


def _launches(overrides: list[Override]) -> list[list[Override]]:
    given = {override.key_or_group: set(map(str, _values(override))) for override in overrides}
    listed = _compose(_choices_among(overrides)).get(VARIANTS) or [[]]
    variants = [[_parsed(text) for text in texts] for texts in listed]
    chosen = [variant for variant in variants if _agrees(variant, given)]
    if not chosen:
        told = ", ".join(f"{key}={'|'.join(sorted(values))}" for key, values in given.items())
        raise SettingError(f"{told}: no variant of the experiment is like this")
    return [_replaced(overrides, variant) for variant in chosen]


def _replaced(overrides: list[Override], variant: list[Override]) -> list[Override]:
    keys = {override.key_or_group for override in variant}
    return [override for override in overrides if override.key_or_group not in keys] + variant


def _agrees(variant: list[Override], given: Mapping[str, set[str]]) -> bool:
    return all(
        str(override.value()) in given.get(override.key_or_group, {str(override.value())})
        for override in variant
    )


def _job(overrides: list[str], folder_key: str) -> RunConfig:
    known = _known_keys(tuple(text for text in overrides if _varies(_key(text))))
    for text in overrides:
        _check_key(_key(text), known)
    cfg = _compose(tuple(overrides))
    _check_folder(folder_key, cfg)
    sweep_settings(cfg)
    return from_omegaconf(OmegaConf.masked_copy(cfg, [str(key) for key in cfg if key != "hydra"]))


def _varies(key: str) -> bool:
    """Whether other choices of this group have other keys; those of Hydra's own groups do."""
    return key in VARYING or key.startswith("hydra/")


def _key(override: str) -> str:
    return override.partition("=")[0]


@functools.cache
def _known_keys(groups: tuple[str, ...]) -> frozenset[str]:
    return frozenset(_flat(_compose(groups), ""))


def _flat(node: DictConfig, prefix: str) -> Iterator[str]:
    for key in map(str, node):
        if key == VARIANTS and not prefix:
            continue
        yield f"{prefix}{key}"
        child = node._get_node(key)
        if isinstance(child, DictConfig) and not child._is_none():
            yield from _flat(child, f"{prefix}{key}.")


def _check_key(key: str, known: frozenset[str]) -> None:
    group, _, rest = key.partition(".")
    if group in GROUPS and rest in ("name", "kind", "dataset", "corpus"):
        allowed = ", ".join(choices(group))
        raise SettingError(f"{key}: follows from the choice; set {group}=, one of {allowed}")
    if key in known or key in GROUPS or key.startswith("hydra/"):
        return
    if others := _choices_with(group, key):
        raise SettingError(f"{key}: belongs to {group}={', '.join(others)}; choose one of these")
    parent = key.rpartition(".")[0]
    siblings = [name for name in known if name.rpartition(".")[0] == parent]
    raise SettingError(unknown_key(key, sorted(siblings or SECTIONS)))


def _choices_with(group: str, key: str) -> list[str]:
    """Choices of a group that have this key, where those differ."""
    if group not in ("replication", "fault"):
        return []
    return [name for name in choices(group) if key in _known_keys((f"{group}={name}",))]


def _check_folder(key: str, cfg: DictConfig) -> None:
    """A folder given by hand must not hold another run or sweep: their records would be mixed."""
    folder = Path(str(OmegaConf.select(cfg, key)))
    own, other = "config.json", "multirun.yaml"
    if key == "hydra.sweep.dir":
        own, other = other, own
    if (folder / other).exists() or ((folder / own).exists() and cfg.resume != "auto"):
        raise SettingError(f"{key}={folder}: must be a folder without a run in it, or resume=auto")
    if folder.resolve() == ROOT:
        raise SettingError(f"{key}: must be a folder of the run's own, not the project's")
