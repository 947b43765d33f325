"""Brings the shared library and the program into the package: the file that STOWAGE_LIBRARY names, else those built with CMake from
the checkout around this folder, else those of the checkout's build/release. Without a library nothing is installed, and the reason is
said; the program is the one beside the library, if there is one. CMAKE_ARGS has further arguments for CMake.
"""
import os
import shlex
import shutil
import subprocess
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.dist import Distribution
from setuptools.errors import SetupError

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # setuptools before 70.1
    from wheel.bdist_wheel import bdist_wheel

CHECKOUT = Path(__file__).resolve().parent.parent
BUILD = CHECKOUT / "build" / "python"


def build_library():
    """The library made by CMake, and ""; or None and why there is none."""
    if not (CHECKOUT / "include" / "stowage.h").is_file():
        return None, f"{CHECKOUT} is no checkout of Stowage, so there is nothing to build the library from"
    if shutil.which("cmake") is None:
        return None, "CMake is not installed, so the library cannot be built"
    configure = ["cmake", "-S", str(CHECKOUT), "-B", str(BUILD), "-DCMAKE_BUILD_TYPE=Release", "-DSTW_MPI=off", "-DSTW_TESTS=OFF"]
    configure += shlex.split(os.environ.get("CMAKE_ARGS", ""))
    if shutil.which("ninja") and not (BUILD / "CMakeCache.txt").is_file():
        configure += ["-G", "Ninja"]
    try:
        subprocess.run(configure, check=True)
        subprocess.run(["cmake", "--build", str(BUILD), "--target", "stowage_shared", "stowage", "--parallel"], check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        return None, f"building the library failed ({error}); it needs CMake, a C compiler, pkg-config, zlib and libzstd"
    return BUILD / "libstowage.so", ""


def find_library():
    named = os.environ.get("STOWAGE_LIBRARY")
    if named:
        found = Path(os.environ.get("PWD", ""), named)  # pip builds in this folder; PWD is the caller's
        if not found.is_file():
            raise SetupError(f"stowage: STOWAGE_LIBRARY is '{named}', and {found} is no file")
        return found
    built, reason = build_library()
    if built is not None:
        return built
    present = CHECKOUT / "build" / "release" / "libstowage.so"
    if not present.is_file():
        raise SetupError(f"stowage: {reason}; or set STOWAGE_LIBRARY to a libstowage.so that is there")
    print(f"stowage: {reason}; {present} is taken")
    return present


class BuildWithLibrary(build_py):
    def run(self):
        package = Path(self.build_lib) / "stowage"
        (package / "libstowage.so").unlink(missing_ok=True)  # of an earlier build
        shutil.rmtree(package / "bin", ignore_errors=True)
        super().run()
        library = find_library()
        if getattr(self, "editable_mode", False):  # an editable install finds them in the checkout
            return
        package.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(library, package / "libstowage.so")
        program = library.parent / "stowage"
        if program.is_file() and os.access(program, os.X_OK):
            (package / "bin").mkdir()
            shutil.copy(program, package / "bin" / "stowage")


class PlatformDistribution(Distribution):
    def has_ext_modules(self):
        return True  # the library is of one platform


class AnyPythonWheel(bdist_wheel):
    def get_tag(self):
        return "py3", "none", super().get_tag()[2]  # ctypes: any Python 3


setup(distclass=PlatformDistribution, cmdclass={"build_py": BuildWithLibrary, "bdist_wheel": AnyPythonWheel})
