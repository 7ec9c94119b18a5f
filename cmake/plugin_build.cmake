# The build identity of a program or plug-in (kernels/backend/plugin.hpp). They are compiled separately and meet at
# run time, so both contain the version, the compiler and a hash of all shared headers.

include(cmake/hash_of_headers.cmake)
troupe_hash_of_headers(${PROJECT_SOURCE_DIR} hash headers
                       kernels/backend/backend.hpp kernels/backend/cuda_library.hpp
                       kernels/op/every_op.hpp kernels/op/extents.hpp
                       kernels/cuda/attention_library.hpp
                       runtime/device/device.hpp runtime/collective/nccl/nccl.hpp
                       runtime/transport/wire.hpp)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${headers})
set(TROUPE_PLUGIN_BUILD "${PROJECT_VERSION} ${TROUPE_COMMIT} ${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}, headers ${hash}")

# Linked into each plug-in. A separate object, so that a new commit does not recompile kernels.
add_library(plugin_build OBJECT EXCLUDE_FROM_ALL kernels/backend/plugin_build.cpp)
set_target_properties(plugin_build PROPERTIES POSITION_INDEPENDENT_CODE ON
                      CXX_VISIBILITY_PRESET hidden)
target_include_directories(plugin_build PRIVATE ${PROJECT_SOURCE_DIR})
target_compile_definitions(plugin_build PRIVATE TROUPE_PLUGIN_BUILD="${TROUPE_PLUGIN_BUILD}")
