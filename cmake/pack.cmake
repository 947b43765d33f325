# `cpack` in a build folder: a Debian package of all that `cmake --install` brings. Preset `package` has the build for it, without MPI;
# dpkg-shlibdeps finds what the program and the library need of the system. docs/install.md
set(CPACK_PACKAGE_NAME stowage)
set(CPACK_PACKAGE_VENDOR "Stowage")
set(CPACK_PACKAGE_CONTACT "The Stowage developers <stowage@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "graph optimizer for ML compilers")
set(CPACK_PACKAGE_DESCRIPTION "${PROJECT_DESCRIPTION}.
The program stowage with its man pages and completion, and the library for C and C++.")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_GENERATOR DEB)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "python3")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright)
include(CPack)
