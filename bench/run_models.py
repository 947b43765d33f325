"""Training steps for bench/run.py: ten kinds of model, sized so that a step takes a few milliseconds on half of an H200. They were chosen
before anything was calibrated."""
import torch
from torch import nn
from torch.nn import functional


class Lstm(nn.Module):
    """Four layers over twelve words, written out in time."""

    def __init__(self, layers=4, width=1024, words=12, vocabulary=4096):
        super().__init__()
        self.cells = nn.ModuleList(nn.Linear(2 * width, 4 * width) for _ in range(layers))
        self.out = nn.Linear(width, vocabulary)
        self.width, self.words = width, words

    def forward(self, x):
        hidden = [x.new_zeros(x.shape[1], self.width) for _ in self.cells]
        state, total = list(hidden), 0
        for t in range(self.words):
            value = x[t]
            for k, cell in enumerate(self.cells):
                hidden[k], state[k] = lstm_cell(cell, value, hidden[k], state[k])
                value = hidden[k]
            total = total + self.out(value).logsumexp(1).mean()
        return total


def lstm_cell(linear, value, hidden, state):
    i, f, g, o = linear(torch.cat([value, hidden], 1)).chunk(4, 1)
    state = f.sigmoid() * state + i.sigmoid() * g.tanh()
    return o.sigmoid() * state.tanh(), state


class Gnmt(nn.Module):
    """An encoder and a decoder of LSTM layers with attention between them."""

    def __init__(self, layers=3, width=768, words=10, vocabulary=4096):
        super().__init__()
        self.encoder = nn.ModuleList(nn.Linear(2 * width, 4 * width) for _ in range(layers))
        self.decoder = nn.ModuleList(nn.Linear((3 if k == 0 else 2) * width, 4 * width) for k in range(layers))
        self.query, self.out = nn.Linear(width, width), nn.Linear(width, vocabulary)
        self.width, self.words = width, words

    def forward(self, source, target):
        batch = source.shape[1]
        hidden = [source.new_zeros(batch, self.width) for _ in self.encoder]
        state, memory = list(hidden), []
        for t in range(self.words):
            value = source[t]
            for k, cell in enumerate(self.encoder):
                hidden[k], state[k] = lstm_cell(cell, value, hidden[k], state[k])
                value = hidden[k]
            memory.append(value)
        memory = torch.stack(memory, 1)  # batch x words x width
        total, context = 0, source.new_zeros(batch, self.width)
        for t in range(self.words):
            value = torch.cat([target[t], context], 1)
            for k, cell in enumerate(self.decoder):
                hidden[k], state[k] = lstm_cell(cell, value, hidden[k], state[k])
                value = hidden[k]
            score = torch.bmm(memory, self.query(value).unsqueeze(2)).softmax(1)
            context = (score * memory).sum(1)
            total = total + self.out(value + context).logsumexp(1).mean()
        return total


class Encoder(nn.Module):
    """Transformer layers."""

    def __init__(self, layers=6, width=768, heads=12):
        super().__init__()
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.0, batch_first=True) for _ in range(layers))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x.pow(2).mean()


class Vit(nn.Module):
    def __init__(self, layers=8, width=384, heads=6, classes=1000):
        super().__init__()
        self.patches = nn.Conv2d(3, width, 16, 16)
        self.place = nn.Parameter(torch.zeros(1, 196, width))
        self.encoder = nn.ModuleList(nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
                                     for _ in range(layers))  # fmt: skip
        self.head = nn.Linear(width, classes)

    def forward(self, image, label):
        x = self.patches(image).flatten(2).transpose(1, 2) + self.place
        for layer in self.encoder:
            x = layer(x)
        return functional.cross_entropy(self.head(x.mean(1)), label)


def conv(inside, outside, size, stride=1):
    return nn.Sequential(nn.Conv2d(inside, outside, size, stride, size // 2), nn.ReLU())


class InceptionBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        part = width // 4
        self.branches = nn.ModuleList([
            conv(width, part, 1), nn.Sequential(conv(width, part, 1), conv(part, part, 3)),
            nn.Sequential(conv(width, part, 1), conv(part, part, 3), conv(part, part, 3)),
            nn.Sequential(nn.AvgPool2d(3, 1, 1), conv(width, part, 1))])  # fmt: skip

    def forward(self, x):
        return torch.cat([branch(x) for branch in self.branches], 1)


class Bottleneck(nn.Module):
    def __init__(self, inside, width, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inside, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width))  # fmt: skip
        self.short = nn.Identity() if inside == 4 * width and stride == 1 else nn.Conv2d(inside, 4 * width, 1, stride, bias=False)

    def forward(self, x):
        return functional.relu(self.body(x) + self.short(x))


class Resnet(nn.Module):
    def __init__(self, depth=(2, 2, 3, 2), classes=1000):
        super().__init__()
        layers, inside = [conv(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)], 64
        for stage, blocks in enumerate(depth):
            for k in range(blocks):
                layers.append(Bottleneck(inside, 64 << stage, 2 if stage > 0 and k == 0 else 1))
                inside = 256 << stage
        self.body, self.head = nn.Sequential(*layers), nn.Linear(inside, classes)

    def forward(self, image, label):
        return functional.cross_entropy(self.head(self.body(image).mean((2, 3))), label)


class Unet(nn.Module):
    def __init__(self, width=48, levels=4):
        super().__init__()
        sizes = [width << k for k in range(levels)]
        self.down = nn.ModuleList(nn.Sequential(conv(a, b, 3), conv(b, b, 3)) for a, b in zip([3, *sizes], sizes))
        self.rise = nn.ModuleList(nn.ConvTranspose2d(2 * b, b, 2, 2) for b in reversed(sizes[:-1]))
        self.up = nn.ModuleList(nn.Sequential(conv(2 * b, b, 3), conv(b, b, 3)) for b in reversed(sizes[:-1]))
        self.out = nn.Conv2d(width, 3, 1)

    def forward(self, x):
        kept = []
        for k, block in enumerate(self.down):
            x = block(x if k == 0 else functional.max_pool2d(x, 2))
            kept.append(x)
        for rise, block, side in zip(self.rise, self.up, reversed(kept[:-1])):
            x = block(torch.cat([rise(x), side], 1))
        return self.out(x).pow(2).mean()


class Wavenet(nn.Module):
    def __init__(self, layers=14, width=192):
        super().__init__()
        self.first = nn.Conv1d(1, width, 1)
        self.gates = nn.ModuleList(nn.Conv1d(width, 2 * width, 2, dilation=1 << k % 7, padding=1 << k % 7) for k in range(layers))
        self.through = nn.ModuleList(nn.Conv1d(width, width, 1) for _ in range(layers))
        self.skips = nn.ModuleList(nn.Conv1d(width, width, 1) for _ in range(layers))
        self.out = nn.Conv1d(width, 256, 1)

    def forward(self, x):
        length, total = x.shape[2], 0
        x = self.first(x)
        for gate, through, skip in zip(self.gates, self.through, self.skips):
            a, b = gate(x)[:, :, :length].chunk(2, 1)
            value = a.tanh() * b.sigmoid()
            total = total + skip(value)
            x = x + through(value)
        return self.out(total.relu()).logsumexp(1).mean()


class Moe(nn.Module):
    """Blocks of four experts, all of which see every token, weighed by a gate."""

    def __init__(self, blocks=4, experts=4, width=768):
        super().__init__()
        make = lambda: nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))  # noqa: E731
        self.experts = nn.ModuleList(nn.ModuleList(make() for _ in range(experts)) for _ in range(blocks))
        self.gates = nn.ModuleList(nn.Linear(width, experts) for _ in range(blocks))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(blocks))

    def forward(self, x):
        for experts, gate, norm in zip(self.experts, self.gates, self.norms):
            y = norm(x)
            weight = gate(y).softmax(-1)
            x = x + sum(weight[:, k : k + 1] * expert(y) for k, expert in enumerate(experts))
        return x.pow(2).mean()


class Towers(nn.Module):
    def __init__(self, count=6, width=1024, depth=6):
        super().__init__()
        self.towers = nn.ModuleList(nn.Sequential(*(layer for _ in range(depth) for layer in (nn.Linear(width, width), nn.GELU()))) for _ in range(count))

    def forward(self, x):
        return sum(tower(x).pow(2).mean() for tower in self.towers)


def images(count, size):
    return torch.randn(count, 3, size, size), torch.randint(0, 1000, (count,))


MODELS = {
    "lstm": lambda: (Lstm(), (torch.randn(12, 64, 1024),)),
    "gnmt": lambda: (Gnmt(), (torch.randn(10, 64, 768), torch.randn(10, 64, 768))),
    "transformer": lambda: (Encoder(), (torch.randn(8, 256, 768),)),
    "vit": lambda: (Vit(), images(16, 224)),
    "inception": lambda: (nn.Sequential(*[InceptionBlock(256) for _ in range(6)]), (torch.randn(16, 256, 28, 28),)),
    "resnet": lambda: (Resnet(), images(16, 128)),
    "unet": lambda: (Unet(), (torch.randn(4, 3, 128, 128),)),
    "wavenet": lambda: (Wavenet(), (torch.randn(8, 1, 2048),)),
    "moe": lambda: (Moe(4, 4, 1024), (torch.randn(512, 1024),)),  # with 1024 x 768 a kernel refuses to start on a share of the SMs
    "towers": lambda: (Towers(), (torch.randn(512, 1024),)),
}
# The same kinds for CPU devices of one or a few cores each: a step of some tens of milliseconds.
SMALL = {
    "lstm": lambda: (Lstm(4, 384, 6, 1024), (torch.randn(6, 32, 384),)),
    "gnmt": lambda: (Gnmt(2, 256, 6, 1024), (torch.randn(6, 32, 256), torch.randn(6, 32, 256))),
    "transformer": lambda: (Encoder(3, 256, 4), (torch.randn(4, 64, 256),)),
    "vit": lambda: (Vit(3, 192, 3), images(2, 224)),
    "inception": lambda: (nn.Sequential(*[InceptionBlock(64) for _ in range(4)]), (torch.randn(4, 64, 28, 28),)),
    "resnet": lambda: (Resnet((1, 1, 1, 1)), images(2, 96)),
    "unet": lambda: (Unet(16, 3), (torch.randn(2, 3, 64, 64),)),
    "wavenet": lambda: (Wavenet(8, 64), (torch.randn(2, 1, 1024),)),
    "moe": lambda: (Moe(3, 4, 256), (torch.randn(256, 256),)),
    "towers": lambda: (Towers(4, 384, 4), (torch.randn(128, 384),)),
}
