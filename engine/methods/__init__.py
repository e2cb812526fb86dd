"""Methods of forgetting, one algorithm per file. A method is a frozen dataclass of knobs with one `run`."""

from engine.core.registry import Registry, import_siblings

methods: Registry[type] = Registry("method")

import_siblings(__name__, __path__)
