"""Audit: did it really forget?"""

import gradio as gr

from engine.studio import Studio
from webui.coming import coming
from webui.pages import Page, pages
from webui.view import View

PARTS = (
    ("Attacks", "Search the latent space for what was erased, invert the photo again, retrain for a few steps, probe "
     "the inner features: against the base and the unlearned model with equal budgets."),
    ("Collateral", "How far everything else has moved: other people, other features, picture quality."),
    ("Integrity", "Fingerprints of the weights, and whether taking the erasure back restores the base bit for bit."),
    ("Report", "What was tried, how often it succeeded, with seeds, sample sizes and intervals."),
)  # fmt: skip


def build(studio: Studio, demo: gr.Blocks) -> None:
    View(coming("Audit", "Did it really forget?", "One button will try hard to bring back what was erased.", PARTS))


pages["audit"] = Page("Audit", "audit", 60, build)
