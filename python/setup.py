"""Brings the shared library into the package: the file that STOWAGE_LIBRARY names, else one built with CMake from the checkout
around this folder, else that of the checkout's build/release. Without any of them the package is installed all the same;
importing it then says what is missing.
"""
import os
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.dist import Distribution

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # setuptools before 70.1
    from wheel.bdist_wheel import bdist_wheel

CHECKOUT = Path(__file__).resolve().parent.parent
BUILD = CHECKOUT / "build" / "python"


def build_library():
    """The library made by CMake, or None with the reason on standard error."""
    if not (CHECKOUT / "CMakeLists.txt").is_file():
        return fail("no checkout of Stowage around this folder to build the library from")
    if shutil.which("cmake") is None:
        return fail("CMake is not installed, so the library is not built")
    configure = ["cmake", "-S", str(CHECKOUT), "-B", str(BUILD), "-DCMAKE_BUILD_TYPE=Release"]
    if shutil.which("ninja") and not (BUILD / "CMakeCache.txt").is_file():
        configure += ["-G", "Ninja"]
    try:
        subprocess.run(configure, check=True)
        subprocess.run(["cmake", "--build", str(BUILD), "--target", "stowage_shared", "--parallel"], check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        return fail(f"building the library failed: {error}")
    return BUILD / "libstowage.so"


def fail(reason):
    print(f"stowage: {reason}", file=sys.stderr)
    return None


def find_library():
    named = os.environ.get("STOWAGE_LIBRARY")
    if named:
        return Path(named) if Path(named).is_file() else fail(f"STOWAGE_LIBRARY is '{named}', which is no file")
    built, present = build_library(), CHECKOUT / "build" / "release" / "libstowage.so"
    return built or (present if present.is_file() else None)


class BuildWithLibrary(build_py):
    def run(self):
        super().run()
        library = find_library()
        if library is None:
            fail("installed without the library; set STOWAGE_LIBRARY to libstowage.so before importing stowage")
        elif not getattr(self, "editable_mode", False):  # an editable install finds it in the checkout
            target = Path(self.build_lib) / "stowage" / "libstowage.so"
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(library, target)


class PlatformDistribution(Distribution):
    def has_ext_modules(self):
        return True  # the library is of one platform


class AnyPythonWheel(bdist_wheel):
    def get_tag(self):
        return "py3", "none", super().get_tag()[2]  # ctypes: any Python 3


setup(distclass=PlatformDistribution, cmdclass={"build_py": BuildWithLibrary, "bdist_wheel": AnyPythonWheel})
