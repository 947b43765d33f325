"""A model with an encoder, a decoder and one embedding for both, like T5, for bench/grain.py and the tests."""
import torch
from torch import nn
from torch.nn import functional


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.heads = heads

    def forward(self, x, memory, causal=False):
        def split(value):
            return value.view(value.shape[0], value.shape[1], self.heads, -1).transpose(1, 2)

        query, key, value = split(self.q(x)), split(self.k(memory)), split(self.v(memory))
        score = query @ key.transpose(2, 3)
        if causal:
            score = score + torch.full(score.shape[2:], float("-inf"), device=x.device).triu(1)
        return self.o((score.softmax(-1) @ value).transpose(1, 2).reshape(x.shape))


class Feed(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.wi, self.wo = nn.Linear(width, 4 * width, bias=False), nn.Linear(4 * width, width, bias=False)

    def forward(self, x):
        return self.wo(torch.relu(self.wi(x)))


class Block(nn.Module):
    def __init__(self, width, heads, crosses):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3 if crosses else 2))
        self.attention, self.feed = Attention(width, heads), Feed(width)
        self.cross = Attention(width, heads) if crosses else None

    def forward(self, x, memory=None):
        normed = self.norms[0](x)
        x = x + self.attention(normed, normed, causal=self.cross is not None)
        if self.cross is not None:
            x = x + self.cross(self.norms[2](x), memory)
        return x + self.feed(self.norms[1](x))


class Stack(nn.Module):
    def __init__(self, layers, width, heads, crosses):
        super().__init__()
        self.block = nn.ModuleList(Block(width, heads, crosses) for _ in range(layers))
        self.final_norm = nn.LayerNorm(width)

    def forward(self, x, memory=None):
        for block in self.block:
            x = block(x, memory)
        return self.final_norm(x)


class T5Like(nn.Module):
    def __init__(self, layers=6, width=512, heads=8, vocabulary=32128):
        super().__init__()
        self.shared = nn.Embedding(vocabulary, width)
        self.encoder, self.decoder = Stack(layers, width, heads, False), Stack(layers, width, heads, True)
        self.lm_head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, source, target, label):
        memory = self.encoder(self.shared(source))
        return functional.cross_entropy(self.lm_head(self.decoder(self.shared(target), memory)).flatten(0, 1), label.flatten())


def t5_like(batch=16, words=256, **sizes):
    """The model and what it is called with."""
    model = T5Like(**sizes)
    words = [torch.randint(model.shared.num_embeddings, (batch, words)) for _ in range(3)]
    return model, tuple(words)
