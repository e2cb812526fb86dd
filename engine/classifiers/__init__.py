"""Classifiers, one architecture per file."""

from torch import nn

from engine.core.registry import Registry, import_siblings

classifiers: Registry[type[nn.Module]] = Registry("classifier")

import_siblings(__name__, __path__)
