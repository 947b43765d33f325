"""The numbers in test_lstm.c that PyTorch gives: its LSTM in both directions, with gradients, and additive attention by its
functions. The inputs are sines, so that the test can make the same ones.

    python3 tests/nn/lstm_reference.py
"""
import torch

STEPS, K, IN, WIDTH = 3, 2, 3, 2
ITEMS, DEPTH = 3, 2
torch.set_default_dtype(torch.float64)


def sines(begin, *shape):
    count = torch.Size(shape).numel()
    return torch.sin(torch.arange(begin, begin + count).double()).reshape(shape)


def show(name, numbers):
    print(f"static const double {name}[] = {{{', '.join(f'{x:.10f}' for x in numbers.flatten().tolist())}}};")


def lstm(backwards):
    layer = torch.nn.LSTM(IN, WIDTH)
    with torch.no_grad():
        layer.weight_ih_l0.copy_(sines(1, 4 * WIDTH, IN))
        layer.weight_hh_l0.copy_(sines(101, 4 * WIDTH, WIDTH))
        layer.bias_ih_l0.copy_(sines(201, 4 * WIDTH))
        layer.bias_hh_l0.zero_()
    x = sines(301, STEPS, K, IN).requires_grad_()
    h, _ = layer(x.flip(0) if backwards else x)
    h = h.flip(0) if backwards else h
    (h * sines(401, STEPS, K, WIDTH)).sum().backward()
    name = "backwards" if backwards else "forwards"
    show(f"h_{name}", h)
    show(f"d_x_{name}", x.grad)
    show(f"d_recurse_{name}", layer.weight_hh_l0.grad)


def point():
    key, query, v, value = sines(1, K, ITEMS, WIDTH), sines(101, K, WIDTH), sines(201, WIDTH), sines(301, K, ITEMS, DEPTH)
    weight = torch.softmax(torch.tanh(key + query[:, None, :]) @ v, dim=1)
    show("pointed", (weight[:, :, None] * value).sum(dim=1))
    show("pointed_weight", weight)


lstm(False)
lstm(True)
point()
