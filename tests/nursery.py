"""Starts real servers quickly: imports everything once, then forks a child for each line on standard input.

Used by test_kill.py, which kills twenty of them. A line is the data folder; the child prints its greeting.
"""

import os
import sys

import torch

from engine.studio import Studio
from webui.app import serve

torch.set_num_threads(1)
print("ready", flush=True)
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        serve(Studio(line.strip(), "cpu", base="tiny"), port=0)
        os._exit(0)
    print(child, flush=True)
    os.waitpid(child, 0)
