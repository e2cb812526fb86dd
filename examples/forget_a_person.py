"""The whole journey in Python: make the default generator forget one of its own people, look, and take it back.

python examples/forget_a_person.py
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from PIL import Image

from engine.core.targets import Seeds
from engine.studio import Studio

studio = Studio()
base = studio.default_base()
job = studio.forget(base, Seeds((1000,)), "guide", {"steps": 0})  # only the closed-form redirection: seconds
print(studio.wait(job).result["verdict"])
(erasure,) = studio.keep(job)
before, after = (studio.sample(base, [1000], deltas, size=256)[0] for deltas in ([], [erasure]))
Image.fromarray(before).save("before.png")
Image.fromarray(after).save("after.png")
studio.activate(base, [name for name in studio.active(base) if name != erasure])  # taken back, bit for bit
