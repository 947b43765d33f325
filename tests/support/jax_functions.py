"""Small functions of JAX that have a gradient, with parameters and inputs for them. Needs jax; the caller sets JAX_PLATFORMS first."""
import jax
import jax.numpy as jnp
import numpy as np


def mlp(p, x):
    h = jnp.tanh(x @ p["a"] + p["b"])
    return jnp.mean((jax.nn.softmax(h @ p["c"]) - 0.1) ** 2)


def recurrent(p, x):
    def step(h, row):
        h = jnp.tanh(row @ p["a"] + h @ p["b"])
        return h, jnp.sum(h * h)

    h, sums = jax.lax.scan(step, jnp.zeros((x.shape[1], 8)), x)
    return jnp.mean(sums) + jnp.sum(h)


def convnet(p, x):
    y = jax.lax.conv_general_dilated(x, p["k"], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    y = jax.nn.relu(y - jnp.mean(y, axis=(0, 1, 2))) / (1.0 + jnp.std(y))
    return jnp.sum(jnp.max(y, axis=(1, 2)) @ p["w"])


def cached(p, x):
    """Slices written into place, and read before and after."""
    cache = jnp.zeros((6, 8)) + p["a"]
    for k in range(3):
        row = jnp.tanh(cache[k] * p["b"] + x[k])
        cache = jax.lax.dynamic_update_slice(cache, row[None], (k + 1, 0))
    return jnp.sum(cache**2) + jnp.sum(cache[1:3] * x[:2])


def attention(p, x):
    q, k, v = (x @ p[n] for n in "qkv")
    y = jax.nn.softmax(q @ k.T / 3.0) @ v
    y = (y - y.mean(-1, keepdims=True)) / jnp.sqrt(y.var(-1, keepdims=True) + 1e-5)
    return jnp.sum(jnp.where(y > 0, y, 0.1 * y) ** 2)


def functions():
    """Each function with its parameters and its input, as numpy has them."""
    r = np.random.default_rng(1)

    def some(*shape):
        return r.normal(size=shape).astype(np.float32)

    yield mlp, {"a": some(8, 16), "b": some(16), "c": some(16, 4)}, some(32, 8)
    yield recurrent, {"a": some(4, 8), "b": some(8, 8)}, some(7, 3, 4)
    yield convnet, {"k": some(3, 3, 2, 4), "w": some(4, 3)}, some(2, 8, 8, 2)
    yield cached, {"a": some(6, 8), "b": some(8)}, some(3, 8)
    yield attention, {n: some(8, 8) for n in "qkv"}, some(12, 8)


def train_step(loss):
    def step(p, x):
        value, gradient = jax.value_and_grad(loss)(p, x)
        return value, jax.tree.map(lambda a, b: a - 0.1 * b, p, gradient)

    return step
