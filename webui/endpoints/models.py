"""Models, pictures of them, and which erasures are applied."""

import gradio as gr

from engine.studio import Studio
from webui.owner import owner_of
from webui.pictures import webp_text
from webui.seeds import parse_seeds


class Models:
    """The endpoints that look at a model."""

    studio: Studio

    def bases(self) -> list[dict]:
        """Lists the models: name, title, licence, whether its weights are here, and the erasures applied to it."""
        return [
            {
                "name": info.name,
                "title": info.title,
                "licence": info.licence,
                "is_here": not info.missing,
                "is_default": info.name == self.studio.default_base(),
                "applied": self.studio.active(info.name),
            }
            for info in self.studio.bases()
        ]

    def sample(
        self,
        request: gr.Request,
        seeds: str = "0-3",
        base: str = "",
        erasures: list[str] | None = None,
        size: int | None = None,
        truncation: float = 0.7,
    ) -> list[str]:
        """Draws a picture per seed ("0-3, 20", at most 64), each a WebP as base64 text. `erasures` are names of kept
        ones, or "run:ID" for a run's result; without them those that are applied. No `size` means full size."""
        base, wanted = self._base(base), parse_seeds(seeds)
        names = self.studio.active(base) if erasures is None else erasures
        made = self.studio.draw(base, names, wanted, psi=truncation, size=size, owner=owner_of(request))
        return [webp_text(pixels) for pixels in made]

    def compare(
        self,
        request: gr.Request,
        seeds: str = "0-7",
        base: str = "",
        before: list[str] | None = None,
        after: list[str] | None = None,
        truncation: float = 0.7,
    ) -> dict:
        """Measures how two versions of a model differ at the same seeds: shares and means with their 95 % intervals.
        `before` are the erasures on one side (without them none), `after` on the other (without them the applied)."""
        base, wanted = self._base(base), parse_seeds(seeds)
        names = self.studio.active(base) if after is None else after
        return self.studio.measure(base, before or [], names, wanted, psi=truncation, owner=owner_of(request))

    def erasures(self, base: str = "") -> list[dict]:
        """Lists the kept erasures of a model: name, what was asked, the method, and whether it is applied."""
        base = self._base(base)
        applied = self.studio.active(base)
        return [
            {"name": name, "request": card.request, "method": card.method, "is_applied": name in applied}
            for name, card in self.studio.deltas(base).items()
        ]

    def apply(self, erasures: list[str], base: str = "") -> dict:
        """Applies exactly these kept erasures; one that is left out is taken back, and none gives the base bit for
        bit. Gives the fingerprint of the weights and what it tells."""
        base = self._base(base)
        self.studio.activate(base, erasures)
        standing = self.studio.standing(base)
        return {"fingerprint": standing.fingerprint, "is_exact": standing.is_exact, "words": standing.words}

    def _base(self, name: str) -> str:
        return name or self.studio.default_base()
