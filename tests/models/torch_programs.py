"""Writes a program of PyTorch and what it computes: `python -m tests.models.torch_programs DIRECTORY`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch


class Small(torch.nn.Module):  # type: ignore[misc, unused-ignore]
    """Convolution, normalisation, attention-like products; two inputs, three outputs."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = torch.nn.Conv2d(3, 4, 3, padding=1)
        self.normalisation = torch.nn.BatchNorm2d(4)
        self.linear = torch.nn.Linear(4, 5)
        self.squash = torch.nn.Softmax(-1)

    def forward(self, image: Any, *, scale: Any) -> dict[str, Any]:
        """Outputs by name."""
        hidden = torch.nn.functional.gelu(self.normalisation(self.convolution(image)))
        logits = self.linear(hidden.mean((2, 3))) * scale
        return {"logits": logits, "best": logits.argmax(-1), "spread": self.squash(logits)}


def write(directory: Path) -> None:
    """Writes `small.pt2` and `reference.npz`."""
    torch.manual_seed(5)
    model = Small().eval()
    image, scale = torch.randn(3, 3, 8, 8), torch.tensor(1.5)
    exported = torch.export.export(
        model,
        (image,),
        {"scale": scale},
        dynamic_shapes={"image": {0: torch.export.Dim("batch")}, "scale": None},
    )
    torch.export.save(exported, directory / "small.pt2")
    with torch.no_grad():
        results = {
            f"out/3/{name}": value.numpy() for name, value in model(image, scale=scale).items()
        }
    given: dict[str, Any] = {"in/image": image.numpy(), "in/scale": scale.numpy()}
    np.savez(directory / "reference.npz", **given, **results)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
