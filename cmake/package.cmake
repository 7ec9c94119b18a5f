# Debian packages: run `cpack -G DEB` in the build folder to make troupe (the program) and troupe-dev.
# tests/package/run.sh installs them on a bare machine.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME troupe)
set(CPACK_PACKAGE_VENDOR "Troupe")
set(CPACK_PACKAGE_CONTACT "Troupe developers <troupe@packages.invalid>")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL program development)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)

set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME troupe)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SHLIBDEPS ON)
# Chart.js (libjs-chart.js) is inside the program, so only the build depends on it.
# Loaded at its first use, so it is not found as a library that the program is linked with.
set(CPACK_DEBIAN_PROGRAM_PACKAGE_DEPENDS libcurl4)
set(CPACK_COMPONENT_PROGRAM_DESCRIPTION "The program troupe makes tokenizers and data sets, trains GPTs in any layout of
tensor, pipeline and data parallelism on the CPU, keeps checkpoints that any
other layout loads, and generates text. Flags and files are Megatron-LM's.")

set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME troupe-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION "Headers, static libraries and the CMake package, for programs with their
own models, layers, losses and actors. Examples are in
/usr/share/doc/troupe/examples.")
# Dependencies of find_package(troupe); see troupe-config.cmake.in.
string(JOIN ", " CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS
       libcaf-dev libspdlog-dev libfmt-dev libdnnl-dev ocl-icd-opencl-dev libhwy-dev
       nlohmann-json3-dev libssl-dev libxxhash-dev libpcre2-dev libutf8proc-dev libsentencepiece-dev liblua5.4-dev
       zlib1g-dev libzstd-dev libicu-dev libcurl4-openssl-dev libncurses-dev prometheus-cpp-dev
       libboost-context-dev pkg-config)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SUGGESTS "troupe (= ${PROJECT_VERSION}), cmake, g++")
include(CPack)
