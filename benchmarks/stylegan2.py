"""How much faster than the straightforward formulation our StyleGAN2 is on this CPU, with the same weights.

256 px, batch 8, random weights. Both are timed in turn in every round; ratios are taken within a round. The backward
pass gives gradients for the codes and for every parameter of the synthesis network.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn

from benchmarks import stylegan2_reference
from benchmarks.memory import alone, peak
from benchmarks.tables import spread
from engine.generators import architectures

CONFIG = {"z_dim": 512, "c_dim": 0, "w_dim": 512, "img_resolution": 256, "img_channels": 3}
CONFIG |= {"channel_base": 16384, "channel_max": 512, "conv_clamp": 256}
MAKERS: dict[str, Callable[[nn.Module, Tensor], Tensor]] = {
    "ours": lambda model, w: model.synth(w),
    "reference": stylegan2_reference.synthesise,
}


def build(batch: int) -> tuple[nn.Module, Tensor]:
    torch.manual_seed(0)
    model = architectures["stylegan2"](**CONFIG)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(name.startswith("synthesis."))
            if name.endswith("noise_strength"):
                parameter.fill_(0.1)
        return model, model.map(model.sample_z(range(batch)))


@torch.no_grad()
def forward(maker: str, model: nn.Module, w: Tensor) -> Tensor:
    return MAKERS[maker](model, w)


def forward_backward(maker: str, model: nn.Module, w: Tensor) -> Tensor:
    model.zero_grad(set_to_none=True)
    w = w.clone().requires_grad_()
    MAKERS[maker](model, w).square().mean().backward()
    return w.grad


WORK = {"forward": forward, "forward + backward": forward_backward}


def seconds(work: str, maker: str, model: nn.Module, w: Tensor) -> float:
    started = time.perf_counter()
    WORK[work](maker, model, w)
    return time.perf_counter() - started


def peak_memory(work: str, maker: str, batch: int) -> float:
    """MiB of resident memory that one call adds to a fresh process with the model in it."""
    model, w = build(batch)
    return peak(lambda: WORK[work](maker, model, w))


def compare(work: str, threads: int, rounds: int, model: nn.Module, w: Tensor, memory: dict) -> str:
    torch.set_num_threads(threads)
    for maker in MAKERS:
        WORK[work](maker, model, w[:1])
    times = [{maker: seconds(work, maker, model, w) for maker in MAKERS} for _ in range(rounds)]
    ratios = [row["reference"] / row["ours"] for row in times]
    middle = {maker: statistics.median(row[maker] for row in times) for maker in MAKERS}
    cells = [work, threads, f"{middle['reference']:.2f}", f"{middle['ours']:.2f}", spread(ratios)]
    cells += [f"{memory['reference']:.0f}", f"{memory['ours']:.0f}"]
    return f"| {' | '.join(map(str, cells))} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--threads", type=int, nargs="+", default=[torch.get_num_threads()])
    options = parser.parse_args()
    model, w = build(options.batch)
    print(f"## StyleGAN2 on the CPU: {CONFIG['img_resolution']} px, batch {options.batch}, {options.rounds} rounds\n")
    print("| work | threads | reference s | ours s | times as fast (spread) | reference MiB | ours MiB |")
    print("|---|---|---|---|---|---|---|")
    for work in WORK:
        memory = {maker: alone(peak_memory, work, maker, options.batch) for maker in MAKERS}
        for threads in options.threads:
            print(compare(work, threads, options.rounds, model, w, memory), flush=True)
    ours, reference = (forward(maker, model, w[:2]) for maker in MAKERS)
    off = (ours - reference).abs().max().item()
    print(f"\nLargest difference of the two pictures: {off:.1e}, where the values reach {reference.abs().max():.1f}.")


if __name__ == "__main__":
    main()
