#!/usr/bin/env python3
"""The Python package as such: importing it, its structs against the header, lifetimes, installing it.

    STOWAGE_LIBRARY=build/release/libstowage.so python3 tests/python/test_package.py [names of tests]
"""
import copy
import ctypes
import ctypes.util
import gc
import os
import pickle
import re
import shutil
import subprocess
import sys
import sysconfig
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support"))
from counting import run_tests  # noqa: E402
from python_package import GRAPH, PACKAGE, ROOT, SANITIZED, TINY, Temporary, python  # noqa: E402

import stowage  # noqa: E402
from stowage import _library, _text  # noqa: E402


class Import(Temporary):
    def test_needs_the_standard_library_alone(self):
        done = python("import sys, stowage; print(sorted({m.split('.')[0] for m in sys.modules} & {'torch', 'numpy', 'onnx', 'jax'}))")
        self.assertEqual((done.stdout, done.stderr, done.returncode), ("[]\n", "", 0))

    def test_a_program_by_its_name(self):
        name = os.path.join(self.folder, "planner")
        with open(name, "w") as file:
            file.write('#!/bin/sh\necho "run with $*"\n')
        os.chmod(name, 0o755)
        paths = os.pathsep.join([str(self.folder), os.environ.get("PATH", os.defpath)])
        done = subprocess.run([sys.executable, "-m", "stowage", "version"], capture_output=True, text=True,
                              env=dict(os.environ, PYTHONPATH=str(PACKAGE / "src"), PATH=paths, STOWAGE_PROGRAM="planner"))
        self.assertEqual((done.stdout, done.stderr), ("run with version\n", ""))

    def test_a_missing_library_is_named(self):
        done = python("import stowage", environment={"STOWAGE_LIBRARY": str(self.folder / "none.so")})
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"ImportError: stowage: the library {self.folder / 'none.so'} cannot be loaded", done.stderr)

    def test_no_library_at_all_says_what_helps(self):
        shutil.copytree(PACKAGE / "src" / "stowage", self.folder / "stowage", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
        environment = {k: v for k, v in os.environ.items() if k != "STOWAGE_LIBRARY"}
        code = "import ctypes.util; ctypes.util.find_library = lambda name: None; import stowage"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=self.folder,
                              env={**environment, "PYTHONPATH": str(self.folder)})  # fmt: skip
        self.assertIn("ImportError: stowage: libstowage.so is not there. Set STOWAGE_LIBRARY", done.stderr)

    def test_packages_that_are_not_there_are_named(self):
        for module, call in (("jax", ""), ("torch", ""), ("onnx", "; stowage.onnx.annotate(b'', None)")):
            done = python(f"import sys; sys.modules[{module!r}] = None; import stowage.{module}{call}")
            self.assertRegex(done.stderr.splitlines()[-1], rf"^ImportError: stowage\.{module}\S* needs .*pip install '?{module}")

    def test_a_library_of_another_kind_is_refused(self):
        libc = ctypes.util.find_library("c")
        done = python("import stowage", environment={"STOWAGE_LIBRARY": libc})
        self.assertIn(f"ImportError: stowage: the library {libc} does not fit this package", done.stderr)

    def test_version(self):
        self.assertEqual(stowage.__version__.split(".")[:2], _library.VERSION.split(".")[:2])
        project = (PACKAGE / "pyproject.toml").read_text()
        header = re.search(r'STW_VERSION "(.*)"', (ROOT / "include" / "stowage.h").read_text())[1]
        self.assertIn(f'version = "{header}"', project)
        self.assertEqual(_library.VERSION, header)

    def test_every_name_exists(self):
        for name in stowage.__all__:
            self.assertTrue(hasattr(stowage, name), name)


class Layout(Temporary):
    """The structures must be those of stowage.h, byte by byte."""

    STRUCTURES = {
        "stw_error": _library.CError, "stw_node": _library.CNode, "stw_evaluation": _library.CEvaluation,
        "stw_bounds": _library.CBounds, "stw_progress": _library.CProgress, "stw_watch": _library.CWatch,
        "stw_found": _library.CFound, "stw_candidate": _library.CCandidate, "stw_noise": _library.CNoise,
        "stw_export_io": _library.CExportIo,
    }  # fmt: skip

    @unittest.skipUnless(shutil.which("cc"), "no C compiler")
    def test_sizes_and_offsets(self):
        lines = []
        for name, structure in self.STRUCTURES.items():
            lines.append(f'printf("{name} %zu\\n", sizeof({name}));')
            lines += [f'printf("{name}.{f[0]} %zu\\n", offsetof({name}, {f[0]}));' for f in structure._fields_]
        source, program = self.folder / "layout.c", self.folder / "layout"
        source.write_text("#include <stddef.h>\n#include <stdio.h>\n#include <stowage.h>\nint main(void) {" + "\n".join(lines) + "return 0;}")
        environment = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
        subprocess.run(["cc", "-I", ROOT / "include", source, "-o", program], check=True, env=environment)
        printed = subprocess.run([program], check=True, capture_output=True, text=True, env=environment).stdout
        expected = dict(line.split() for line in printed.splitlines())
        for name, structure in self.STRUCTURES.items():
            self.assertEqual(ctypes.sizeof(structure), int(expected[name]), name)
            for field in structure._fields_:
                self.assertEqual(getattr(structure, field[0]).offset, int(expected[f"{name}.{field[0]}"]), (name, field[0]))


class Text(unittest.TestCase):
    def test_bytes(self):
        for text, expected in (("4GB", 4 * 10**9), ("512MiB", 2**29), ("1.5kB", 1500), ("1000", 1000), ("2 TiB", 2**41)):
            self.assertEqual(_text.parse_bytes(text), expected)
        self.assertEqual([_text.show_bytes(n) for n in (0, 999, 1000, 65536, 1.5e12)], ["0 B", "999 B", "1 kB", "65.5 kB", "1.5 TB"])

    def test_seconds(self):
        shown = [_text.show_seconds(s) for s in (2.5, 0.00836, 1.5e-6, 0, float("nan"))]
        self.assertEqual(shown, ["2.5 s", "8.36 ms", "1.5 us", "0 us", "-"])


class Lifetimes(unittest.TestCase):
    def test_what_is_needed_is_kept(self):
        plan = stowage.optimize(stowage.load(GRAPH), stowage.Machine("h200x2"), evaluations=20).plan
        gc.collect()
        self.assertTrue(plan.evaluate().valid)
        nodes = stowage.Graph.parse(TINY).nodes
        gc.collect()
        self.assertEqual(nodes[3].name, "mm")
        own = stowage.Plan(stowage.Graph.parse(TINY), "h200x2")
        gc.collect()
        self.assertEqual(own.machine.name, "h200x2")
        self.assertTrue(own.evaluate().valid)

    def test_pickles_and_deep_copies_are_refused(self):
        graph = stowage.Graph.parse(TINY)
        plan = stowage.Plan(graph, "h200x2")
        for each in (graph, plan.machine, plan, plan.simulator, stowage.optimize(graph, "h200x2", evaluations=5)):
            for copied in (pickle.dumps, copy.deepcopy):
                with self.assertRaisesRegex(TypeError, "cannot be pickled or deep-copied; save"):
                    copied(each)
        evaluation = plan.evaluate()
        self.assertEqual(pickle.loads(pickle.dumps(evaluation)), evaluation)

    def test_what_was_never_finished_goes_quietly(self):
        seen = []
        hook, sys.unraisablehook = sys.unraisablehook, seen.append
        try:
            for kind in (_library.Handle, stowage.Graph, stowage.Plan, stowage.Simulator):
                kind.__new__(kind)
            gc.collect()
        finally:
            sys.unraisablehook = hook
        self.assertEqual(seen, [])

    def test_everything_is_given_back(self):
        counted, destroyed = [], []
        create, destroy = _library.Handle.__init__, _library.Handle.__del__

        def counting_create(self, pointer, destroy, *keep):
            counted.append(1 if destroy else 0)
            create(self, pointer, destroy, *keep)

        def counting_destroy(self):
            destroyed.append(1 if self._destroy and self.pointer else 0)
            destroy(self)

        _library.Handle.__init__, _library.Handle.__del__ = counting_create, counting_destroy
        try:
            result = stowage.optimize(GRAPH, "h200x2", evaluations=20)
            result.plan.copy().evaluate()
            del result
            gc.collect()
        finally:
            _library.Handle.__init__, _library.Handle.__del__ = create, destroy
        self.assertGreater(sum(counted), 5)
        self.assertEqual(sum(destroyed), sum(counted))


@unittest.skipIf(SANITIZED, "pip is not run under a sanitizer")
class Install(Temporary):
    def setUp(self):
        super().setUp()
        self.package = self.folder / "checkout" / "python"
        shutil.copytree(PACKAGE, self.package, ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__", ".mypy_cache"))
        made = subprocess.run([sys.executable, "-m", "venv", self.folder / "venv"], capture_output=True, text=True)
        if made.returncode != 0:
            self.skipTest("this Python makes no virtual environments: " + (made.stderr or made.stdout).strip()[:80])
        self.python = str(self.folder / "venv" / "bin" / "python")
        self.environment = {k: v for k, v in os.environ.items() if k not in ("STOWAGE_LIBRARY", "PYTHONPATH")}

    def pip(self, *arguments, **environment):
        """Runs pip from the folder, as a shell would."""
        done = subprocess.run([self.python, "-m", "pip", "install", "--retries", "1", *arguments], capture_output=True, text=True,
                              cwd=self.folder, env={**self.environment, "PWD": str(self.folder), **environment})  # fmt: skip
        if done.returncode != 0 and re.search("No matching distribution|connection", done.stderr, re.I):
            self.skipTest("pip cannot get setuptools here")
        return done

    def test_in_a_fresh_environment(self):
        stale = self.package / "build" / f"lib.{sysconfig.get_platform()}-cpython-{sys.version_info[0]}{sys.version_info[1]}" / "stowage"
        stale.mkdir(parents=True)
        (stale / "libstowage.so").write_text("of an earlier build")
        shutil.copyfile(_library.library._name, self.folder / "mine.so")
        installed = self.pip("--quiet", str(self.package), STOWAGE_LIBRARY="mine.so")  # relative to where pip was called
        self.assertEqual(installed.returncode, 0, installed.stderr)
        code = f"""
import stowage
r = stowage.optimize({str(GRAPH)!r}, "h200x2", evaluations=20)
print(r.plan is not None, "site-packages" in stowage._library.library._name)
"""
        done = subprocess.run([self.python, "-c", code], capture_output=True, text=True, env=self.environment, cwd=self.folder)
        self.assertEqual((done.stdout, done.stderr), ("True True\n", ""))

    def test_without_a_library_nothing_is_installed(self):
        self.assertEqual(self.pip("--quiet", "setuptools", "wheel").returncode, 0)
        install = ("--no-build-isolation", "--no-index", str(self.package))
        refused = self.pip(*install, STOWAGE_LIBRARY="none.so")
        self.assert_refused(refused, f"STOWAGE_LIBRARY is 'none.so', and {self.folder / 'none.so'} is no file")
        self.assert_refused(self.pip(*install), "checkout is no checkout of Stowage, so there is nothing to build the library from")
        (self.package.parent / "include").mkdir()
        (self.package.parent / "include" / "stowage.h").touch()
        (self.package.parent / "CMakeLists.txt").write_text("message(FATAL_ERROR broken)")
        bare = self.folder / "bin"
        bare.mkdir()
        self.assert_refused(self.pip(*install, PATH=str(bare)), "CMake is not installed, so the library cannot be built")
        if shutil.which("cmake"):
            self.assert_refused(self.pip(*install), "building the library failed")

    def assert_refused(self, done, reason):
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(reason, done.stdout + done.stderr)
        found = subprocess.run([self.python, "-c", "import stowage"], capture_output=True, text=True, env=self.environment, cwd=self.folder)
        self.assertIn("No module named 'stowage'", found.stderr)


if __name__ == "__main__":
    sys.exit(run_tests())
