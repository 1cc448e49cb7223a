"""Packages of others, as pip leaves them: code, settings and entry points."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def installed(site: Path, name: str, files: Mapping[str, str], entry_points: str) -> Path:
    """Put a package with these files into a folder for PYTHONPATH; returns that folder."""
    for place, text in files.items():
        path = site / name / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for folder in (site / name, site / name / "conf"):
        (folder / "__init__.py").touch()
    info = site / f"{name}-1.0.dist-info"
    info.mkdir()
    title = name.replace("_", "-")
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {title}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"{entry_points}[mlfabric.conf]\n{name} = {name}.conf\n")
    return site
