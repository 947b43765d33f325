"""What tests of placed steps share: plans for small modules, and steps that must equal those of the module by itself."""
import copy

import torch

import stowage
import stowage.torch
from torch_modules import MODULES, loss_of

TOLERANCE = {"rtol": 1e-4, "atol": 1e-5}


def plan_for(module, args, method="etf", devices=2, **options):
    graph = stowage.torch.trace(module, *args, **options)
    return stowage.Simulator(graph, f"h200x{devices}").run(method)


def reads_a_weight_elsewhere(module, x):
    """The plan of two linear layers that has the gradient of the hidden layer, which reads the second weight, on the second device."""
    graph = stowage.torch.trace(module, x)
    views = {next(node.id for node in graph.nodes if node.label == "1.weight")}
    for node in graph.nodes:
        if node.kind == "view" and set(node.inputs) & views:
            views.add(node.id)
    plan = stowage.Plan(graph, "h200x2")
    plan.device = [1 if node.op == "mm" and set(node.inputs) & views else 0 for node in graph.nodes]
    assert sum(plan.device) == 1
    return plan


def check_steps(test, name, method, devices, update=None, tolerance=TOLERANCE, portable=False, steps=3, **options):
    """Steps with other data each time equal those of the module by itself, on a CPU: losses, gradients or parameters, and buffers."""
    torch.manual_seed(0)
    module, args = MODULES[name]()
    alone = copy.deepcopy(module)
    plan = plan_for(module, args, method, len(devices), portable=portable)

    def check(found, expected, label):
        said = lambda text: f"{name}, {method} on {devices}, {label}: {text}"  # noqa: E731
        torch.testing.assert_close(found, expected, msg=said, check_device=False, **tolerance)

    with stowage.torch.place(module, *args, plan=plan, devices=devices, update=update, rate=0.05, **options) as step:
        for _ in range(steps):
            args = MODULES[name]()[1]
            for parameter in alone.parameters():
                parameter.grad = None
            expected = loss_of(alone, args)
            expected.backward()
            check(step(*args), expected.detach(), "the loss")
            for (label, a), b in zip(alone.named_parameters(), module.parameters()):
                if update is not None and a.grad is not None:
                    a.data -= 0.05 * a.grad
                    check(b.data, a.data, label)
                elif update is None:
                    test.assertEqual(a.grad is None, b.grad is None, label)
                    if a.grad is not None:
                        check(b.grad, a.grad, f"the gradient of {label}")
            for (label, a), b in zip(alone.named_buffers(), module.buffers()):
                check(b, a, label)
    return step
