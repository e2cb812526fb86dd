"""Networks that learn tasks one by one, give one back to a file, and take it in again bit for bit.

One method per file, with what differs and nothing else. `mask_methods` are the methods of the mask family,
`references` the yardsticks beside them; both are frozen dataclasses of knobs, driven by `engine.masks.net.MaskedNet`.
"""

from engine.core.registry import Registry, import_siblings

mask_methods: Registry[type] = Registry("mask method")
references: Registry[type] = Registry("reference")

import_siblings(__name__, __path__)
