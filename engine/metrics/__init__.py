"""Measurements, one quantity per file: what was forgotten, what was kept, what an attack brings back."""

from engine.core.registry import Registry, import_siblings

metrics: Registry[type] = Registry("metric")

import_siblings(__name__, __path__)
