"""Networks of the zoo that no library has, as torch modules; only `zoo_torch` imports this."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional


class Decoder(nn.Module):  # type: ignore[misc]
    """A segmentation head: bilinear and nearest Resize, Concat, Slice, pointwise convolutions after upsampling."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.deep = nn.Conv2d(3, 64, 7, 4, 3), nn.Conv2d(64, 256, 3, 2, 1)
        self.low, self.high, self.head = nn.Conv2d(256, 64, 1), nn.Conv2d(64, 64, 1), nn.Conv2d(128, 21, 1)

    def forward(self, image: Any) -> Any:
        """``image [1, 3, h, w]`` -> scores ``[1, 21, 2 h, 2 w]``."""
        features = functional.relu(self.deep(functional.relu(self.stem(image))))
        low = functional.interpolate(features, scale_factor=4.0, mode="bilinear", align_corners=False)
        larger = functional.interpolate(image, scale_factor=2.0, mode="nearest")
        high = self.high(functional.relu(self.stem(larger)))
        if high.shape[-1] != low.shape[-1]:
            high = functional.max_pool2d(high, 2)
        joined = torch.cat([self.low(low), high[..., : low.shape[-2], : low.shape[-1]]], 1)
        return functional.interpolate(self.head(joined), scale_factor=4.0, mode="bilinear", align_corners=False)


class Recommender(nn.Module):  # type: ignore[misc]
    """DLRM: 26 tables with projections, pairwise interaction, two multilayer perceptrons."""

    def __init__(self, tables: int = 26, rows: int = 1000, width: int = 16, hidden: int = 64) -> None:
        super().__init__()
        self.bottom = nn.Sequential(nn.Linear(13, 512), nn.ReLU(), nn.Linear(512, hidden), nn.ReLU())
        self.tables = nn.ModuleList([nn.Embedding(rows, width) for _ in range(tables)])
        self.projections = nn.ModuleList([nn.Linear(width, hidden, bias=False) for _ in range(tables)])
        pairs = (tables + 1) ** 2
        self.top = nn.Sequential(
            nn.Linear(pairs + hidden, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 1)
        )

    def forward(self, dense: Any, categories: Any) -> Any:
        """``dense [batch, 13]``, ``categories [batch, 26]`` -> probabilities ``[batch, 1]``."""
        x = self.bottom(dense)
        looked_up = [
            project(table(categories[:, k]))
            for k, (table, project) in enumerate(zip(self.tables, self.projections, strict=True))
        ]
        vectors = torch.stack([x, *looked_up], 1)
        pairs = torch.bmm(vectors, vectors.transpose(1, 2)).flatten(1)
        return torch.sigmoid(self.top(torch.cat([x, pairs], 1)))
