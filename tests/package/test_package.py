"""What `cmake --install` brings, from outside the tree: programs in C and C++ that find it by pkg-config and by CMake, symbols, files.

    python3 tests/package/test_package.py build/release/stowage          (or STOWAGE_BIN=build/release/stowage)

Nothing is built anew but these programs. The exit status is the verdict; the last line counts what passed and failed.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "cli"))
import program  # noqa: E402
from program import SMALL  # noqa: E402

SOURCES = os.path.join(ROOT, "tests", "package")
CC, CXX = os.environ.get("STOWAGE_CC", "cc"), os.environ.get("STOWAGE_CXX", "c++")
INTERFACE = "0.1"  # of SONAME and symbols


def run(*command, **more):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more)
    if done.returncode != 0:
        raise AssertionError(f"{shlex.join(command)}: exit status {done.returncode}\n{done.stdout}")
    return done.stdout


def declared():
    """The functions of stowage.h, and those of them that are not marked to be shown."""
    with open(os.path.join(ROOT, "include", "stowage.h")) as file:
        text = re.sub(r"/\*.*?\*/", "", file.read(), flags=re.DOTALL)
    text = re.sub(r"^\s*#(?:.*\\\n)*.*$", "", text, flags=re.MULTILINE).replace('extern "C" {', "")
    while re.search(r"\{[^{}]*\}", text):
        text = re.sub(r"\{[^{}]*\}", "", text)  # members and values
    functions = [re.sub(r"\s+", " ", part).strip() for part in text.split(";") if "(" in part]
    names = [re.search(r"\b(stw_\w+) ?\(", function).group(1) for function in functions]
    return names, [name for name, function in zip(names, functions) if not function.startswith("STW_API ")]


class Symbols(unittest.TestCase):
    def setUp(self):
        self.library = os.path.join(os.path.dirname(program.binary), "libstowage.so")

    def test_the_functions_of_the_header_and_nothing_else(self):
        names, unmarked = declared()
        self.assertEqual(unmarked, [])
        self.assertEqual(len(names), len(set(names)))
        self.assertGreater(len(names), 50)
        shown = [line.split() for line in run("nm", "-D", "--defined-only", self.library).splitlines()]
        version = f"STOWAGE_{INTERFACE}"
        self.assertEqual(sorted(line[2] for line in shown), sorted([f"{name}@@{version}" for name in names] + [version]))

    def test_soname(self):
        self.assertIn(f"[libstowage.so.{INTERFACE}]", run("readelf", "-d", self.library))
        self.assertTrue(run(program.binary, "version").startswith(f"stowage {INTERFACE}."))


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="stowage package ")
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        at_first = os.path.join(cls.folder, "at first")
        run("cmake", "--install", os.path.dirname(program.binary), "--prefix", at_first)
        cls.prefix = os.path.join(cls.folder, "moved")  # nothing in it may know where it was
        os.rename(at_first, cls.prefix)
        cls.library_folder = os.path.dirname(cls.find("libstowage.so"))
        cls.graph = os.path.join(cls.folder, "graph.json")
        with open(cls.graph, "w") as file:
            json.dump(SMALL, file)
        cls.version = run(os.path.join(cls.prefix, "bin", "stowage"), "version").split()[1]

    @classmethod
    def find(cls, name):
        found = [os.path.join(folder, name) for folder, _, files in os.walk(cls.prefix) if name in files]
        if len(found) != 1:
            raise AssertionError(f"{name} is there {len(found)} times")
        return found[0]

    def check(self, use, shared):
        """The program finds a plan, and needs the shared library or does not."""
        out = run(use, self.graph)
        self.assertRegex(out, rf"^{re.escape(self.version)} {re.escape(self.version)} \d+\.\d+ us\n$")
        needed = [line for line in run("readelf", "-d", use).splitlines() if "(NEEDED)" in line]
        self.assertEqual([line for line in needed if f"[libstowage.so.{INTERFACE}]" in line] != [], shared)
        self.assertFalse(any("libmpi" in line for line in needed), needed)

    def pkg_config(self, *arguments):
        environment = dict(os.environ, PKG_CONFIG_PATH=os.path.dirname(self.find("stowage.pc")))
        return shlex.split(run("pkg-config", *arguments, "stowage", env=environment))

    def test_pkg_config(self):
        self.assertEqual(self.pkg_config("--modversion"), [self.version])
        flags = [*self.pkg_config("--cflags", "--libs"), "-Wl,-rpath," + self.library_folder]
        for compiler, source in ((CC, "use.c"), (CXX, "use.cpp")):
            with self.subTest(source=source):
                use = os.path.join(self.folder, source + ".pkg-config")
                run(compiler, "-Wall", "-Werror", os.path.join(SOURCES, source), "-o", use, *flags)
                self.check(use, shared=True)

    def test_pkg_config_static(self):
        flags = self.pkg_config("--static", "--cflags", "--libs")
        self.assertIn("-lstowage", flags)
        use = os.path.join(self.folder, "use.static")
        run(CC, os.path.join(SOURCES, "use.c"), "-o", use, *["-l:libstowage.a" if flag == "-lstowage" else flag for flag in flags])
        self.check(use, shared=False)

    def test_cmake(self):
        build = os.path.join(self.folder, "build")
        run("cmake", "-G", "Ninja", "-S", SOURCES, "-B", build, "-DCMAKE_PREFIX_PATH=" + self.prefix, "-DCMAKE_C_COMPILER=" + CC,
            "-DCMAKE_CXX_COMPILER=" + CXX)
        run("cmake", "--build", build)
        for name in ("use_c", "use_cpp", "use_static"):
            with self.subTest(name=name):
                self.check(os.path.join(build, name), shared=name != "use_static")

    def test_man_pages_and_completions(self):
        pages = [name for name in os.listdir(os.path.join(self.prefix, "share", "man", "man1"))]
        self.assertEqual(sorted(pages), sorted(os.listdir(os.path.join(ROOT, "docs", "man"))))
        for shell, place in (("bash", "bash-completion/completions/stowage"), ("zsh", "zsh/site-functions/_stowage"),
                             ("fish", "fish/vendor_completions.d/stowage.fish")):
            with open(os.path.join(self.prefix, "share", place)) as file:
                self.assertEqual(file.read(), run(program.binary, "help", "--completion", shell))

    def test_nothing_names_another_place(self):
        places = (ROOT.encode(), os.path.dirname(self.prefix).encode())
        for name in ("stowage.pc", "StowageConfig.cmake", "StowageTargets.cmake", "StowageTargets-release.cmake"):
            with open(self.find(name), "rb") as file:
                text = file.read()
            for place in places:
                self.assertNotIn(place, text, name)


if __name__ == "__main__":
    sys.exit(program.main())
