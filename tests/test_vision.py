import subprocess
import sys
from pathlib import Path

import torch

from engine import vision

BOXES = torch.tensor([[0.0, 0, 10, 10], [1, 1, 10, 10], [20, 20, 30, 30]])
SCORES = torch.tensor([0.9, 0.8, 0.7])


def test_nms_keeps_the_best_box_and_drops_what_overlaps_it():
    assert vision.greedy_nms(BOXES, SCORES, 0.5).tolist() == [0, 2]
    assert vision.greedy_nms(BOXES, SCORES, 0.9).tolist() == [0, 1, 2]
    assert vision.greedy_nms(BOXES, SCORES.flip(0), 0.5).tolist() == [2, 1]  # 0.81 of the union: the better one stays


def test_nms_of_no_boxes_is_empty():
    kept = vision.greedy_nms(torch.zeros(0, 4), torch.zeros(0), 0.5)
    assert kept.shape == (0,) and kept.dtype == torch.long


def test_the_shim_answers_the_same_twice():
    assert vision.ensure_ops() is vision.ensure_ops()


def test_torchvisions_own_nms_works_under_the_shim():
    import torchvision  # the shim has run

    assert torchvision.ops.nms(BOXES, SCORES, 0.5).tolist() == [0, 2]
    assert torchvision.ops.nms(torch.zeros(0, 4), torch.zeros(0), 0.5).tolist() == []


def test_a_fresh_process_imports_lpips_after_it():
    code = "from engine import vision; import lpips; print('fine')"
    root = Path(__file__).resolve().parents[1]
    ran = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=False)
    assert ran.stdout.strip() == "fine", ran.stderr
