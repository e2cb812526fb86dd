"""Did it really forget? Attacks on the base and on the unlearned model with equal budgets, one attack per file.

An attack is a frozen dataclass with a budget and one `run(before, after, aim)`; its Done holds a `Finding`. Adding a
file is adding an attack. What is looked for is an `Aim`; `verdict` turns findings into words, `report` into files.
"""

from engine.core.registry import Registry, import_siblings

attacks: Registry[type] = Registry("attack")

import_siblings(__name__, __path__)
