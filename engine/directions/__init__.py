"""A feature as a direction in latent space: found from labels, kept apart from others, used to move codes."""

from engine.directions.direction import Direction, edit
from engine.directions.find import find, find_all, protect_from
from engine.directions.labelled import Labelled
from engine.directions.space import Space, survey

__all__ = ["Direction", "Labelled", "Space", "edit", "find", "find_all", "protect_from", "survey"]
