"""The whole journey over HTTP, against a studio that `python app.py` serves: forget a sample, look, take it back.

python examples/over_http.py http://127.0.0.1:7860
"""

import base64
import sys
from pathlib import Path

from gradio_client import Client

studio = Client(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:7860", verbose=False)
(before,) = studio.predict(seeds="1000", api_name="/sample")
run = studio.predict(seeds="1000", settings={"steps": 0}, api_name="/erase_seeds")  # only the closed-form redirection
for standing in studio.submit(run=run, api_name="/wait"):
    print(standing["state"], standing.get("step", ""), standing["error"] or "")
erasures = studio.predict(run=run, api_name="/keep")
(after,) = studio.predict(seeds="1000", api_name="/sample")
for name, picture in {"before.webp": before, "after.webp": after}.items():
    Path(name).write_bytes(base64.b64decode(picture))
applied = [one["name"] for one in studio.predict(api_name="/erasures") if one["is_applied"]]
left = [name for name in applied if name not in erasures]
print(studio.predict(erasures=left, api_name="/apply")["words"])  # taken back
