"""Making a model forget, and asking whether it did. Each gives the id of a run; `wait` and `keep` go on from there."""

from typing import Any

import gradio as gr

from engine.core.errors import UserError
from engine.core.knobs import preset as preset_of
from engine.core.targets import Photo, Seeds
from engine.studio import Studio
from webui.owner import owner_of
from webui.photodrop import decoded
from webui.seeds import parse_seeds

MOST = 10_000  # seeds of one side of a label


class Erasing:
    """The endpoints that begin a run."""

    studio: Studio

    def label(self, request: gr.Request, feature: str, having: str = "", lacking: str = "", base: str = "") -> str:
        """Stores labels of a feature: seeds of samples that have it, and seeds of samples that lack it (drawn at
        truncation 1). Gives all labels of this feature as the text of a file, which `erase_feature` takes."""
        base, owner = base or self.studio.default_base(), owner_of(request)
        for text, value in ((having, 1), (lacking, 0)):
            if text.strip():
                self.studio.labels.set_many(owner, base, feature, dict.fromkeys(parse_seeds(text, MOST), value))
        return self.studio.labels_text(base, feature, owner=owner)

    def erase_feature(
        self,
        request: gr.Request,
        labels: str,
        also: list[str] | None = None,
        protect: list[str] | None = None,
        preset: str = "balanced",
        settings: dict | None = None,
    ) -> str:
        """Begins to erase a labelled feature. `labels` is the text of a file of labels (from `label`, the Feature page
        or `label-export`), `also` are texts for further features, `protect` for those that must stay."""
        owner = owner_of(request)
        base, target = self.studio.labelled_target(labels, also=also or (), protect=protect or ())
        return self._erase(base, target, "feature", preset, settings, owner)

    def erase_person(
        self,
        request: gr.Request,
        photo: str,
        face: int = 1,
        words: str = "a person",
        base: str = "",
        preset: str = "balanced",
        settings: dict | None = None,
    ) -> str:
        """Begins to erase the person in a photo: JPG, PNG or WebP as base64 text, which stays in memory. `face` counts
        from the largest; `words` is what the record calls the person."""
        base, owner = base or self.studio.default_base(), owner_of(request)
        target = self._photo(photo, face, base, owner, words)
        return self._erase(base, target, "guide", preset, settings, owner)

    def erase_seeds(
        self,
        request: gr.Request,
        seeds: str,
        base: str = "",
        method: str = "guide",
        preset: str = "",
        settings: dict | None = None,
    ) -> str:
        """Begins to erase generated samples by their seeds, with any method that takes them: `guide`, or `ascent`, the
        naive baseline. Without a preset the method's own settings are used."""
        base, owner = base or self.studio.default_base(), owner_of(request)
        return self._erase(base, Seeds(tuple(parse_seeds(seeds))), method, preset, settings, owner)

    def audit(
        self,
        request: gr.Request,
        erasure: str,
        photo: str = "",
        face: int = 1,
        seed: int | None = None,
        preset: str = "balanced",
        settings: dict | None = None,
    ) -> str:
        """Begins to attack an erasure: a kept one by its name, or a run by its id. Whom to look for is known from the
        run, but for a photo, which was not stored: give it again, or the seed of a generated person."""
        owner, target = owner_of(request), None if seed is None else Seeds((seed,))
        if photo:
            target = self._photo(photo, face, self.studio.default_base(), owner)
        knobs = preset_of(self.studio.audit_budget(), preset) | (settings or {})
        return self.studio.audit(erasure, knobs, target=target, owner=owner)

    def report(self, request: gr.Request, run: str) -> dict:
        """What an audit found: the verdict in words, each attack with its intervals, what should have stayed, and
        fingerprints."""
        return self.studio.audit_report(run, owner=owner_of(request))

    def _erase(self, base: str, target: Any, method: str, preset: str, settings: dict | None, owner: str) -> str:
        knobs = preset_of(self.studio.method(method), preset) if preset else {}
        applied = self.studio.active(base)
        return self.studio.forget(base, target, method, knobs | (settings or {}), deltas=applied, owner=owner)

    def _photo(self, text: str, face: int, base: str, owner: str, words: str = "a person") -> Photo:
        """A photo without that face is refused at once, not by a run that fails later."""
        found = self.studio.open_portrait(decoded(text), base, owner=owner)
        pixels = self.studio.portrait_pixels(found.token, owner=owner)
        self.studio.drop_portrait(found.token, owner=owner)
        if not 1 <= face <= len(found.boxes):
            raise UserError(f"face {face}: this photo shows {len(found.boxes)}, the largest is 1")
        return Photo(pixels, face - 1, words)
