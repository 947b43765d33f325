"""Small modules of several kinds for tests of stowage.torch: each as (module, arguments)."""
import torch
from torch import nn


class Lstm(nn.Module):
    """Two layers over four words, written out in time: views of gates, sums over time."""

    def __init__(self, layers=2, width=24, words=4):
        super().__init__()
        self.cells = nn.ModuleList(nn.Linear(2 * width, 4 * width) for _ in range(layers))
        self.out = nn.Linear(width, 40)
        self.width, self.words = width, words

    def forward(self, x):
        hidden = [x.new_zeros(x.shape[1], self.width) for _ in self.cells]
        state, total = list(hidden), 0
        for t in range(self.words):
            value = x[t]
            for k, cell in enumerate(self.cells):
                i, f, g, o = cell(torch.cat([value, hidden[k]], 1)).chunk(4, 1)
                state[k] = f.sigmoid() * state[k] + i.sigmoid() * g.tanh()
                hidden[k] = value = o.sigmoid() * state[k].tanh()
            total = total + self.out(value).logsumexp(1).mean()
        return total


class Tied(nn.Module):
    """Attention between an embedding and its transpose."""

    def __init__(self):
        super().__init__()
        self.embedding, self.out = nn.Embedding(50, 32), nn.Linear(32, 50, bias=False)
        self.layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
        self.out.weight = self.embedding.weight

    def forward(self, words):
        return nn.functional.cross_entropy(self.out(self.layer(self.embedding(words))).flatten(0, 1), words.flatten())


def conv():
    """Buffers that a step writes, and an op in place."""
    return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.Conv2d(8, 8, 3), nn.BatchNorm2d(8),
                         nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 5))  # fmt: skip


class Partly(nn.Module):
    """Parameters that are frozen, or not used."""

    def __init__(self):
        super().__init__()
        self.unused, self.frozen, self.used = nn.Linear(3, 3), nn.Linear(6, 6), nn.Linear(6, 6)
        self.frozen.requires_grad_(False)

    def forward(self, x):
        return self.used(self.frozen(x)).pow(2).mean()


MODULES = {
    "lstm": lambda: (Lstm(), (torch.randn(4, 8, 24),)),
    "tied": lambda: (Tied(), (torch.randint(0, 50, (4, 7)),)),
    "conv": lambda: (conv(), (torch.randn(4, 3, 8, 8),)),
    "partly": lambda: (Partly(), (torch.randn(5, 6),)),
}


def loss_of(module, args):
    out = module(*args)
    return out if out.numel() == 1 else out.pow(2).mean()
