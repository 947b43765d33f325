#!/usr/bin/env python3
"""Real runs laid over the reports of their plans: a training step of two small towers, placed on two CPU devices (the executor's own
times) and by itself under PyTorch's profiler, and a jitted step under JAX's; and steps on parts of a GPU.

    STOWAGE_LIBRARY=build/release/libstowage.so build/venv/bin/python3 bench/measured.py FOLDER [--picture docs/pictures/measured.png]
    STOWAGE_LIBRARY=build/release/libstowage.so python3 bench/measured.py FOLDER --gpu [--models towers,transformer]

The first writes the traces and executor.html, profiler.html, jax.html into the folder, and prints what each page says of its trace. --picture draws
their timelines below each other, by Chromium. Needs PyTorch and JAX, two cores, and nothing else on them: else the calibration measures
that, too.

The second needs PyTorch, cuda-bindings and a GPU on which nothing else runs. For each model it calibrates, plans, places and traces a step,
writes MODEL-graph.json.gz (with the times that are predicted), MODEL-plan.json, MODEL-trace.json, MODEL-machine.json, the report MODEL.html
and what the profiler recorded (MODEL-raw-N.json.gz), and prints measured / predicted by operator and of the step."""

import argparse
import base64
import glob
import html
import json
import os
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.join(ROOT, "python", "src"), os.path.join(ROOT, "tests", "support")]
os.environ["JAX_PLATFORMS"] = "cpu"
from chromium import in_browser  # noqa: E402

import stowage  # noqa: E402

PAGES = {"executor": "a training step on two CPU devices, and when its ops ran", "profiler": "the module by itself, under PyTorch's profiler",
         "jax": "a jitted step, under JAX's profiler"}


def run_torch(folder):
    """Traces of the step on two devices and of the module by itself, each laid over the report of its plan."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    import stowage.torch

    class Towers(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = (torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 512), torch.nn.GELU(),
                                                  torch.nn.Linear(512, 64)) for _ in range(2))

        def forward(self, x):
            return self.a(x) * self.b(x)

    torch.manual_seed(0)
    torch.set_num_threads(1)
    module, x, devices = Towers(), torch.randn(128, 256), ["cpu:0", "cpu:1"]
    found = stowage.torch.calibrate(devices, module, x)
    plan = stowage.Simulator(found.graph, found.machine).run("metis")  # a tower on each
    with stowage.torch.place(module, x, plan=plan, devices=devices, update="sgd") as step:
        step(x)
        step.trace(os.path.join(folder, "executor.json"))
    report(plan, folder, "executor")
    optimizer = torch.optim.SGD(module.parameters(), 0.01)

    def train():
        module(x).pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    for _ in range(3):
        train()
    with profile(activities=[ProfilerActivity.CPU]) as profiled:
        train()
        train()
    profiled.export_chrome_trace(os.path.join(folder, "profiler.json"))
    report(stowage.Simulator(found.graph, found.machine).run("single"), folder, "profiler")
    return found.machine


def run_jax(folder, machine):
    import jax
    import jax.numpy as jnp

    def loss(p, x, y):
        return jnp.mean((jax.nn.gelu(jnp.tanh(x @ p["a"] + p["b"]) @ p["c"]) @ p["d"] - y) ** 2)

    def step(p, x, y):
        value, slope = jax.value_and_grad(loss)(p, x, y)
        return jax.tree.map(lambda a, b: a - 0.01 * b, p, slope), value

    sizes = {"a": (256, 512), "b": (512,), "c": (512, 512), "d": (512, 64)}
    given = {name: 0.1 * jnp.ones(size) for name, size in sizes.items()}, jnp.ones((128, 256)), jnp.ones((128, 64))
    jitted, module = jax.jit(step), os.path.join(folder, "module.hlo")
    with open(module, "w", encoding="utf-8") as file:
        file.write(jitted.lower(*given).compile().as_text())
    for _ in range(3):
        jax.block_until_ready(jitted(*given))
    with jax.profiler.trace(os.path.join(folder, "jax")):
        jax.block_until_ready(jitted(*given))
    os.replace(glob.glob(os.path.join(folder, "jax", "**", "*.trace.json.gz"), recursive=True)[0], os.path.join(folder, "jax.json"))
    one = dict(machine, name="one", devices=machine["devices"][:1], links=[])
    report(stowage.Simulator(stowage.load(module), one).run("single"), folder, "jax")


def report(plan, folder, name):
    plan.report(os.path.join(folder, name + ".html"), measured=os.path.join(folder, name + ".json"))


# ---- what the pages look like ----

SAYS = "[...document.querySelectorAll('#sentences li')].map(item => item.textContent).find(text => text.includes('measured event'))"
PLACE = """(() => { const box = document.getElementById('timeline').getBoundingClientRect();
  return {x: box.left + scrollX, y: box.top + scrollY, width: box.width, height: box.height, scale: 1}; })()"""


def look(browser, folder, picture):
    browser.open("about:blank")
    browser.call("Emulation.setDeviceMetricsOverride", width=1000, height=900, deviceScaleFactor=1, mobile=False)
    shots = []
    for name, title in PAGES.items():
        browser.call("Page.navigate", url="file://" + os.path.join(folder, name + ".html"))
        browser.wait_for("window.stowageReport ? 1 : null", "report")
        time.sleep(0.5)
        says = browser.evaluate(SAYS, returnByValue=True)["value"]
        print(f"{title}: {says.partition(': ')[2]}")
        clip = browser.evaluate(PLACE, returnByValue=True)["value"]
        shots.append((title, browser.call("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)["data"]))
    if picture:
        rows = "".join(f'<p>{html.escape(title)}</p><img src="data:image/png;base64,{data}">' for title, data in shots)
        browser.call("Page.navigate", url="about:blank")
        browser.call("Emulation.setDeviceMetricsOverride", width=960, height=100, deviceScaleFactor=1, mobile=False)
        browser.evaluate(f"document.write({json.dumps('<style>body{margin:12px;font:600 15px sans-serif}p{margin:14px 0 8px}</style>' + rows)})")
        time.sleep(0.5)
        height = browser.evaluate("document.documentElement.scrollHeight", returnByValue=True)["value"]
        clip = {"x": 0, "y": 0, "width": 960, "height": height, "scale": 1}
        with open(picture, "wb") as file:
            file.write(base64.b64decode(browser.call("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)["data"]))
    loud = [e for e in browser.events if e["method"] in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")]
    print(*loud, sep="\n", end="\n" * bool(loud))
    return int(bool(loud))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--picture")
    parser.add_argument("--gpu", action="store_true", help="steps on the devices, in place of those on CPUs")
    parser.add_argument("--devices", default="cuda:0/sm:64,cuda:0/sm:64", help="separated by commas")
    parser.add_argument("--models", default="towers,transformer", help="of bench/run_models.py")
    parser.add_argument("--budget", default="2s", help="of the search for a plan")
    options = parser.parse_args()
    folder, picture = os.path.abspath(options.folder), options.picture and os.path.abspath(options.picture)
    os.makedirs(folder, exist_ok=True)
    if options.gpu:
        import measured_gpu

        return measured_gpu.run(folder, options.models.split(","), options.devices.split(","), options.budget)
    os.chdir(folder)  # pages have the path of their trace as it was given
    run_jax("", run_torch(""))
    return in_browser(lambda _: folder, lambda browser, path: look(browser, path, picture), 180)


if __name__ == "__main__":
    sys.exit(main())
