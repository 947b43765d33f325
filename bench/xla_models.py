"""Steps for bench/xla.py: a function that makes `step(state, batch)` with its arguments, and its sizes on a GPU and on a CPU.

A training step returns (loss, new state); the state is the parameters, with an optimizer's moments where there is one. A decoding step
returns (logits, new caches).
"""
import jax
import jax.numpy as jnp
import numpy as np


class Draw:
    """Random arrays, the same in every run; weights are scaled by the number of their inputs."""

    def __init__(self, dtype=jnp.float32):
        self.source, self.dtype = np.random.default_rng(7), dtype

    def __call__(self, *shape, inputs=None):
        scale = 1.0 if inputs is None else inputs**-0.5
        return jnp.asarray(scale * self.source.standard_normal(shape, dtype=np.float32)).astype(self.dtype)

    def numbers(self, below, *shape):
        return jnp.asarray(self.source.integers(0, below, shape), jnp.int32)


# ---- optimizers ----


def sgd(loss):
    def step(p, x):
        value, gradient = jax.value_and_grad(loss)(p, x)
        return value, jax.tree.map(lambda a, b: a - b.astype(a.dtype), p, gradient)

    return step


def adamw(loss, rate=1e-3, first=0.9, second=0.95, decay=0.1):
    """Moments in float32 whatever the parameters are. The state is (parameters, moments, moments, count)."""

    def step(state, x):
        p, m, v, count = state
        value, gradient = jax.value_and_grad(loss)(p, x)
        count = count + 1.0
        gradient = jax.tree.map(lambda g: g.astype(jnp.float32), gradient)
        m = jax.tree.map(lambda a, g: first * a + (1 - first) * g, m, gradient)
        v = jax.tree.map(lambda a, g: second * a + (1 - second) * g * g, v, gradient)
        a, b = 1 - first**count, 1 - second**count

        def update(w, m, v):
            wide = w.astype(jnp.float32)
            return (wide - rate * (m / a / (jnp.sqrt(v / b) + 1e-8) + decay * wide)).astype(w.dtype)

        return value, (jax.tree.map(update, p, m, v), m, v, count)

    return step


def adamw_state(p):
    def zeros():
        return jax.tree.map(lambda w: jnp.zeros(w.shape, jnp.float32), p)

    return p, zeros(), zeros(), jnp.float32(0)


# ---- shared parts ----


def layer_norm(x, gain, bias):
    wide = x.astype(jnp.float32)
    wide = wide - wide.mean(-1, keepdims=True)
    return (wide * jax.lax.rsqrt((wide * wide).mean(-1, keepdims=True) + 1e-5) * gain + bias).astype(x.dtype)


def rms_norm(x, gain):
    wide = x.astype(jnp.float32)
    return (wide * jax.lax.rsqrt((wide * wide).mean(-1, keepdims=True) + 1e-5) * gain).astype(x.dtype)


def attend(q, k, v, mask=None):
    """(batch, length, heads, head) each."""
    score = jnp.einsum("blhd,bmhd->bhlm", q, k).astype(jnp.float32) * q.shape[-1] ** -0.5
    if mask is not None:
        score = jnp.where(mask, score, -1e9)
    return jnp.einsum("bhlm,bmhd->blhd", jax.nn.softmax(score, axis=-1).astype(v.dtype), v)


def causal(length):
    return jnp.tril(jnp.ones((length, length), bool))


def cross_entropy(logits, target):
    logits = logits.astype(jnp.float32)
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), target[..., None], axis=-1))


# ---- the five on which the first rule was made ----


def mlp(depth, width, batch):
    draw = Draw()
    p = [{"w": draw(width, width, inputs=width), "b": jnp.zeros(width)} for _ in range(depth)]

    def loss(p, x):
        h = x
        for layer in p:
            h = jnp.tanh(h @ layer["w"] + layer["b"])
        return jnp.mean((h - 0.5) ** 2)

    return sgd(loss), p, draw(batch, width)


def lstm(steps, width, batch, layers=2):
    draw = Draw()
    p = [{"w": draw(2 * width, 4 * width, inputs=2 * width), "b": jnp.zeros(4 * width)} for _ in range(layers)]

    def loss(p, x):
        h = [jnp.zeros((batch, width)) for _ in p]
        c = list(h)
        total = 0.0
        for t in range(steps):
            below = x[t]
            for k, layer in enumerate(p):
                i, f, g, o = jnp.split(jnp.concatenate([below, h[k]], axis=1) @ layer["w"] + layer["b"], 4, axis=1)
                c[k] = jax.nn.sigmoid(f) * c[k] + jax.nn.sigmoid(i) * jnp.tanh(g)
                h[k] = below = jax.nn.sigmoid(o) * jnp.tanh(c[k])
            total += jnp.mean((below - 0.1) ** 2)
        return total / steps

    return sgd(loss), p, draw(steps, batch, width)


def transformer(layers, width, length, batch, head=64):
    draw = Draw()
    heads = width // head

    def block():
        return {
            **{n: draw(width, width, inputs=width) for n in "qkvo"},
            "up": draw(width, 4 * width, inputs=width), "down": draw(4 * width, width, inputs=4 * width),
            "g1": jnp.ones(width), "c1": jnp.zeros(width), "g2": jnp.ones(width), "c2": jnp.zeros(width), "b": jnp.zeros(4 * width),
        }  # fmt: skip

    def mix(p, x):
        q, k, v = ((x @ p[n]).reshape(batch, length, heads, head) for n in "qkv")
        return attend(q, k, v).reshape(batch, length, width) @ p["o"]

    def loss(p, x):
        for layer in p:
            x = x + mix(layer, layer_norm(x, layer["g1"], layer["c1"]))
            x = x + jax.nn.gelu(layer_norm(x, layer["g2"], layer["c2"]) @ layer["up"] + layer["b"]) @ layer["down"]
        return jnp.mean((x - 0.1) ** 2)

    return sgd(loss), [block() for _ in range(layers)], draw(batch, length, width)


def convnet(blocks, channels, side, batch):
    draw = Draw()
    p = [{"k": draw(3, 3, channels, channels, inputs=9 * channels), "g": jnp.ones(channels), "c": jnp.zeros(channels)}
         for _ in range(2 * blocks)]  # fmt: skip

    def layer(p, x):
        y = jax.lax.conv_general_dilated(x, p["k"], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        y = y - y.mean((0, 1, 2))
        return y * jax.lax.rsqrt((y * y).mean((0, 1, 2)) + 1e-5) * p["g"] + p["c"]

    def loss(p, x):
        for k in range(blocks):
            x = jax.nn.relu(x + layer(p[2 * k + 1], jax.nn.relu(layer(p[2 * k], x))))
        return jnp.mean((x.mean((1, 2)) - 0.1) ** 2)

    return sgd(loss), p, draw(batch, side, side, channels)


def wavenet(layers, channels, length, batch):
    draw = Draw()
    wide = ("f", "g")
    p = [{**{n: draw(2, channels, channels, inputs=2 * channels) for n in wide}, "s": draw(1, channels, channels, inputs=channels),
          "r": draw(1, channels, channels, inputs=channels)} for _ in range(layers)]  # fmt: skip

    def convolve(x, kernel, dilation=1):
        pad = ((kernel.shape[0] - 1) * dilation, 0)
        return jax.lax.conv_general_dilated(x, kernel, (1,), [pad], rhs_dilation=(dilation,), dimension_numbers=("NWC", "WIO", "NWC"))

    def loss(p, x):
        skip = 0.0
        for k, layer in enumerate(p):
            d = 2 ** (k % 6)
            z = jnp.tanh(convolve(x, layer["f"], d)) * jax.nn.sigmoid(convolve(x, layer["g"], d))
            skip = skip + convolve(z, layer["s"])
            x = x + convolve(z, layer["r"])
        return jnp.mean((jax.nn.relu(skip) - 0.1) ** 2) + 1e-3 * jnp.mean(x * x)

    return sgd(loss), p, draw(batch, length, channels)


# ---- others ----


def norms(layers, width, batch):
    """Layer norms and softmaxes in turn, with nothing between them that a library computes."""
    draw = Draw()
    p = [{"g": jnp.ones(width), "c": jnp.zeros(width), "t": jnp.ones(width)} for _ in range(layers)]

    def loss(p, x):
        for layer in p:
            y = layer_norm(x, layer["g"], layer["c"])
            x = x + jax.nn.softmax(y * layer["t"], axis=-1) * y
        return jnp.mean((x - 0.1) ** 2)

    return sgd(loss), p, draw(batch, width)


def gpt_block(draw, width):
    return {"qkv": draw(width, 3 * width, inputs=width), "o": draw(width, width, inputs=width),
            "up": draw(width, 4 * width, inputs=width), "down": draw(4 * width, width, inputs=4 * width),
            "b": jnp.zeros(4 * width, draw.dtype), "g1": jnp.ones(width), "c1": jnp.zeros(width), "g2": jnp.ones(width),
            "c2": jnp.zeros(width)}  # fmt: skip


def gpt_layer(p, x, heads, mask):
    batch, length, width = x.shape
    q, k, v = jnp.split(layer_norm(x, p["g1"], p["c1"]) @ p["qkv"], 3, axis=-1)
    q, k, v = (y.reshape(batch, length, heads, width // heads) for y in (q, k, v))
    x = x + attend(q, k, v, mask).reshape(batch, length, width) @ p["o"]
    return x + jax.nn.gelu(layer_norm(x, p["g2"], p["c2"]) @ p["up"] + p["b"]) @ p["down"]


def gpt(layers, width, length, batch, words, head=64, scan=False, remat=False):
    """With `scan`, the layers are one loop; with `remat`, they are computed again on the way back."""
    draw = Draw(jnp.bfloat16)
    p = {"words": draw(words, width, inputs=width), "places": draw(length, width), "layers": [gpt_block(draw, width) for _ in range(layers)],
         "g": jnp.ones(width), "c": jnp.zeros(width)}  # fmt: skip
    if scan:
        p["layers"] = jax.tree.map(lambda *each: jnp.stack(each), *p["layers"])
    tokens = draw.numbers(words, batch, length + 1)

    def loss(p, tokens):
        mask = causal(length)
        x = p["words"][tokens[:, :-1]] + p["places"]

        def one(x, layer):
            return gpt_layer(layer, x, width // head, mask), None

        one = jax.checkpoint(one) if remat else one
        if scan:
            x, _ = jax.lax.scan(one, x, p["layers"])
        for layer in () if scan else p["layers"]:
            x, _ = one(x, layer)
        return cross_entropy(layer_norm(x, p["g"], p["c"]) @ p["words"].T, tokens[:, 1:])

    return adamw(loss), adamw_state(p), tokens


def transformer_xl(layers, width, length, batch, head=64):
    """Relative positions; the memory is the segment before."""
    draw = Draw()
    heads = width // head
    p = [{**{n: draw(width, width, inputs=width) for n in "qkvro"}, "u": draw(heads, head), "w": draw(heads, head),
          "up": draw(width, 4 * width, inputs=width), "down": draw(4 * width, width, inputs=4 * width),
          **{n: jnp.ones(width) for n in ("g1", "g2")}, **{n: jnp.zeros(width) for n in ("c1", "c2")}} for _ in range(layers)]  # fmt: skip
    place = np.arange(2 * length - 1, -1, -1.0)[:, None] / 10000 ** (np.arange(0, width, 2) / width)
    places = jnp.asarray(np.concatenate([np.sin(place), np.cos(place)], axis=1), jnp.float32)

    def shift(x):
        b, h, q, k = x.shape
        return jnp.pad(x, ((0, 0), (0, 0), (0, 0), (1, 0))).reshape(b, h, k + 1, q)[:, :, 1:].reshape(b, h, q, k)

    def mix(p, x, memory):
        both = jnp.concatenate([memory, x], axis=1)
        q = (x @ p["q"]).reshape(batch, length, heads, head)
        k, v = ((both @ p[n]).reshape(batch, 2 * length, heads, head) for n in "kv")
        r = (places @ p["r"]).reshape(2 * length, heads, head)
        score = jnp.einsum("blhd,bmhd->bhlm", q + p["u"], k) + shift(jnp.einsum("blhd,mhd->bhlm", q + p["w"], r))
        mask = jnp.tril(jnp.ones((length, 2 * length), bool), length)
        weights = jax.nn.softmax(jnp.where(mask, score * head**-0.5, -1e9), axis=-1)
        return jnp.einsum("bhlm,bmhd->blhd", weights, v).reshape(batch, length, width) @ p["o"]

    def loss(p, x):
        x, memory = x
        for k, layer in enumerate(p):
            h = layer_norm(x + mix(layer, x, memory[k]), layer["g1"], layer["c1"])
            x = layer_norm(h + jax.nn.relu(h @ layer["up"]) @ layer["down"], layer["g2"], layer["c2"])
        return jnp.mean((x - 0.1) ** 2)

    return sgd(loss), p, (draw(batch, length, width), [draw(batch, length, width) for _ in range(layers)])


def resnet(blocks, channels, side, batch):
    """Bottlenecks with batch norm, bf16, NHWC."""
    draw = Draw(jnp.bfloat16)

    def convolution(size, inputs, outputs):
        return {"k": draw(size, size, inputs, outputs, inputs=size * size * inputs), "g": jnp.ones(outputs), "c": jnp.zeros(outputs)}

    p = [[convolution(1, 4 * channels, channels), convolution(3, channels, channels), convolution(1, channels, 4 * channels)]
         for _ in range(blocks)]  # fmt: skip

    def layer(p, x):
        y = jax.lax.conv_general_dilated(x, p["k"], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")).astype(jnp.float32)
        y = y - y.mean((0, 1, 2))
        return (y * jax.lax.rsqrt((y * y).mean((0, 1, 2)) + 1e-5) * p["g"] + p["c"]).astype(x.dtype)

    def loss(p, x):
        for one, two, three in p:
            x = jax.nn.relu(x + layer(three, jax.nn.relu(layer(two, jax.nn.relu(layer(one, x))))))
        return jnp.mean((x.astype(jnp.float32).mean((1, 2)) - 0.1) ** 2)

    return sgd(loss), p, draw(batch, side, side, 4 * channels)


def moe(layers, width, experts, tokens, room=1.25):
    """Two of the experts for each token; what does not fit into an expert's room is dropped."""
    draw = Draw()
    p = [{"gate": draw(width, experts, inputs=width), "up": draw(experts, width, 4 * width, inputs=width),
          "down": draw(experts, 4 * width, width, inputs=4 * width), "g": jnp.ones(width), "c": jnp.zeros(width)}
         for _ in range(layers)]  # fmt: skip
    places = int(2 * tokens * room) // experts

    def layer(p, x):
        weight, chosen = jax.lax.top_k(jax.nn.softmax(x @ p["gate"]), 2)
        weight = weight / weight.sum(-1, keepdims=True)
        mask = jax.nn.one_hot(chosen.reshape(-1), experts)
        place = ((jnp.cumsum(mask, axis=0) - 1) * mask).sum(-1).astype(jnp.int32)
        keep = (place < places)[:, None]
        at = (chosen.reshape(-1), jnp.minimum(place, places - 1))
        sent = jnp.zeros((experts, places, width)).at[at].add(jnp.repeat(x, 2, axis=0) * keep)
        made = jnp.einsum("epf,efw->epw", jax.nn.silu(jnp.einsum("epw,ewf->epf", sent, p["up"])), p["down"])
        return (made[at] * keep * weight.reshape(-1, 1)).reshape(tokens, 2, width).sum(1)

    def loss(p, x):
        for each in p:
            x = x + layer(each, layer_norm(x, each["g"], each["c"]))
        return jnp.mean((x - 0.1) ** 2)

    return sgd(loss), p, draw(tokens, width)


def rotate(x, place):
    """Rotary positions: (batch, length, heads, head), (length)."""
    half = x.shape[-1] // 2
    angle = place[:, None] * 10000.0 ** (-jnp.arange(half) / half)
    sin, cos = (f(angle)[None, :, None, :] for f in (jnp.sin, jnp.cos))
    a, b = jnp.split(x.astype(jnp.float32), 2, axis=-1)
    return jnp.concatenate([a * cos - b * sin, a * sin + b * cos], axis=-1).astype(x.dtype)


def llama_block(draw, width, inner, shared):
    return {"q": draw(width, width, inputs=width), "k": draw(width, width // shared, inputs=width),
            "v": draw(width, width // shared, inputs=width), "o": draw(width, width, inputs=width),
            "gate": draw(width, inner, inputs=width), "up": draw(width, inner, inputs=width), "down": draw(inner, width, inputs=inner),
            "g1": jnp.ones(width), "g2": jnp.ones(width)}  # fmt: skip


def llama(layers, width, length, batch, inner, words, head=64, shared=4):
    """Grouped queries, rotary positions, SwiGLU; bf16, AdamW."""
    draw = Draw(jnp.bfloat16)
    heads = width // head
    p = {"words": draw(words, width, inputs=width), "layers": [llama_block(draw, width, inner, shared) for _ in range(layers)], "g": jnp.ones(width),
         "out": draw(width, words, inputs=width)}  # fmt: skip
    tokens = draw.numbers(words, batch, length + 1)

    def mix(p, x):
        place = jnp.arange(length, dtype=jnp.float32)
        q = rotate((x @ p["q"]).reshape(batch, length, heads, head), place)
        k = rotate((x @ p["k"]).reshape(batch, length, heads // shared, head), place)
        v = (x @ p["v"]).reshape(batch, length, heads // shared, head)
        k, v = (jnp.repeat(y, shared, axis=2) for y in (k, v))
        return attend(q, k, v, causal(length)).reshape(batch, length, width) @ p["o"]

    def loss(p, tokens):
        x = p["words"][tokens[:, :-1]]
        for layer in p["layers"]:
            x = x + mix(layer, rms_norm(x, layer["g1"]))
            h = rms_norm(x, layer["g2"])
            x = x + (jax.nn.silu(h @ layer["gate"]) * (h @ layer["up"])) @ layer["down"]
        return cross_entropy(rms_norm(x, p["g"]) @ p["out"], tokens[:, 1:])

    return adamw(loss), adamw_state(p), tokens


def decode(layers, width, length, batch, inner, words, head=64):
    """One token for each sequence, keys and values of those before in caches."""
    draw = Draw(jnp.bfloat16)
    heads = width // head
    weights = {"words": draw(words, width, inputs=width), "layers": [llama_block(draw, width, inner, 1) for _ in range(layers)], "g": jnp.ones(width)}
    caches = [(draw(batch, length, heads, head), draw(batch, length, heads, head)) for _ in range(layers)]

    def step(caches, given):
        p, token, place = given
        x, kept = p["words"][token][:, None, :], []
        for layer, (keys, values) in zip(p["layers"], caches):
            h = rms_norm(x, layer["g1"])
            at = place.astype(jnp.float32)[None]
            q = rotate((h @ layer["q"]).reshape(batch, 1, heads, head), at)
            k = rotate((h @ layer["k"]).reshape(batch, 1, heads, head), at)
            v = (h @ layer["v"]).reshape(batch, 1, heads, head)
            keys = jax.lax.dynamic_update_slice(keys, k, (0, place, 0, 0))
            values = jax.lax.dynamic_update_slice(values, v, (0, place, 0, 0))
            kept.append((keys, values))
            x = x + attend(q, keys, values, jnp.arange(length) <= place).reshape(batch, 1, width) @ layer["o"]
            h = rms_norm(x, layer["g2"])
            x = x + (jax.nn.silu(h @ layer["gate"]) * (h @ layer["up"])) @ layer["down"]
        return (rms_norm(x, p["g"]) @ p["words"].T)[:, 0], kept

    return step, caches, (weights, draw.numbers(words, batch), jnp.int32(length - 7))


def gnmt(steps, width, batch, layers, words):
    """An encoder and a decoder of LSTM cells, unrolled, with attention for each word."""
    draw = Draw()

    def cells():
        return [{"w": draw(2 * width, 4 * width, inputs=2 * width), "b": jnp.zeros(4 * width)} for _ in range(layers)]

    p = {"encode": cells(), "decode": cells(), "query": draw(width, width, inputs=width), "mix": draw(2 * width, width, inputs=2 * width),
         "out": draw(width, words, inputs=width)}  # fmt: skip

    def run(cells, x, h, c):
        for k, cell in enumerate(cells):
            i, f, g, o = jnp.split(jnp.concatenate([x, h[k]], axis=1) @ cell["w"] + cell["b"], 4, axis=1)
            c[k] = jax.nn.sigmoid(f) * c[k] + jax.nn.sigmoid(i) * jnp.tanh(g)
            h[k] = jax.nn.sigmoid(o) * jnp.tanh(c[k])
            x = h[k] + x if k > 0 else h[k]
        return x

    def loss(p, given):
        source, target, words = given
        h, c = ([jnp.zeros((batch, width)) for _ in range(layers)] for _ in range(2))
        memory = jnp.stack([run(p["encode"], source[t], h, c) for t in range(steps)], axis=1)
        total = 0.0
        for t in range(steps):
            y = run(p["decode"], target[t], h, c)
            weights = jax.nn.softmax(jnp.einsum("bw,bsw->bs", y @ p["query"], memory))
            y = jnp.tanh(jnp.concatenate([y, jnp.einsum("bs,bsw->bw", weights, memory)], axis=1) @ p["mix"])
            total += cross_entropy(y @ p["out"], words[t])
        return total / steps

    return sgd(loss), p, (draw(steps, batch, width), draw(steps, batch, width), draw.numbers(words, steps, batch))


def branches(layers, width, batch):
    """A layer takes one of two ways by what it sees (cond), within nested jits."""
    draw = Draw()
    p = [{"w": draw(width, width, inputs=width), "b": jnp.zeros(width)} for _ in range(layers)]

    @jax.jit
    def dear(h, layer):
        return jnp.tanh(h @ layer["w"] + layer["b"]) * jax.nn.softmax(h, axis=-1)

    def cheap(h, layer):
        return jax.nn.gelu(h + layer["b"]) * 0.5

    def loss(p, x):
        for layer in p:
            x = x + jax.lax.cond(x.mean() < 10.0, dear, cheap, x, layer)
        return jnp.mean((x - 0.5) ** 2)

    return sgd(loss), p, draw(batch, width)


MODELS = {  # name: (function, sizes, small sizes)
    "mlp": (mlp, {"depth": 8, "width": 2048, "batch": 1024}, {"depth": 3, "width": 64, "batch": 32}),
    "lstm": (lstm, {"steps": 12, "width": 1024, "batch": 64}, {"steps": 4, "width": 32, "batch": 8}),
    "transformer": (transformer, {"layers": 3, "width": 1024, "length": 512, "batch": 8},
                    {"layers": 1, "width": 128, "length": 32, "batch": 2}),
    "convnet": (convnet, {"blocks": 4, "channels": 128, "side": 32, "batch": 128}, {"blocks": 1, "channels": 8, "side": 8, "batch": 4}),
    "wavenet": (wavenet, {"layers": 8, "channels": 256, "length": 1024, "batch": 8},
                {"layers": 2, "channels": 16, "length": 64, "batch": 2}),
    "norms": (norms, {"layers": 6, "width": 1536, "batch": 16384}, {"layers": 2, "width": 64, "batch": 256}),
    "gpt": (gpt, {"layers": 4, "width": 768, "length": 512, "batch": 8, "words": 8192},
            {"layers": 1, "width": 64, "length": 16, "batch": 2, "words": 50, "head": 16}),
    "gpt-scan": (gpt, {"layers": 6, "width": 768, "length": 512, "batch": 8, "words": 8192, "scan": True},
                 {"layers": 2, "width": 64, "length": 16, "batch": 2, "words": 50, "head": 16, "scan": True}),
    "gpt-remat": (gpt, {"layers": 4, "width": 768, "length": 512, "batch": 8, "words": 8192, "scan": True, "remat": True},
                  {"layers": 2, "width": 64, "length": 16, "batch": 2, "words": 50, "head": 16, "scan": True, "remat": True}),
    "transformer-xl": (transformer_xl, {"layers": 4, "width": 768, "length": 256, "batch": 16},
                       {"layers": 1, "width": 64, "length": 16, "batch": 2, "head": 16}),
    "resnet": (resnet, {"blocks": 4, "channels": 128, "side": 28, "batch": 64}, {"blocks": 1, "channels": 8, "side": 8, "batch": 4}),
    "moe": (moe, {"layers": 3, "width": 768, "experts": 8, "tokens": 4096}, {"layers": 1, "width": 32, "experts": 4, "tokens": 64}),
    "llama": (llama, {"layers": 3, "width": 1024, "length": 512, "batch": 8, "inner": 2816, "words": 8192},
              {"layers": 1, "width": 64, "length": 16, "batch": 2, "inner": 96, "words": 50, "head": 16, "shared": 2}),
    "decode": (decode, {"layers": 8, "width": 1024, "length": 1024, "batch": 16, "inner": 2816, "words": 8192},
               {"layers": 1, "width": 64, "length": 16, "batch": 2, "inner": 96, "words": 50, "head": 16}),
    "gnmt": (gnmt, {"steps": 6, "width": 768, "batch": 96, "layers": 3, "words": 4096},
             {"steps": 3, "width": 32, "batch": 4, "layers": 2, "words": 50}),
    "branches": (branches, {"layers": 6, "width": 1024, "batch": 4096}, {"layers": 2, "width": 32, "batch": 16}),
}  # fmt: skip
