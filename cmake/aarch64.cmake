# Cross-compiles for 64-bit Arm with Debian's gcc-aarch64-linux-gnu. Headers and libraries come from a Debian root for arm64, which
# scripts/check_aarch64.sh unpacks; tests run under qemu. Absolute, so that the compiler's checks find it in their own folders.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
get_filename_component(root ${CMAKE_CURRENT_LIST_DIR}/../build/aarch64-root ABSOLUTE)
if(DEFINED ENV{STOWAGE_ARM_ROOT}) # a link to it, where the checkout's path has a blank, which pkg-config cannot deal with
  set(root $ENV{STOWAGE_ARM_ROOT})
endif()
set(CMAKE_SYSROOT ${root})
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${root})
set(ENV{PKG_CONFIG_LIBDIR} ${root}/usr/lib/aarch64-linux-gnu/pkgconfig:${root}/usr/share/pkgconfig)
# The address space holds no arena of the usual 16 GiB, so that they are smaller: qemu sets bytes aside for every page that is reserved.
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -R 15G -L ${root})
