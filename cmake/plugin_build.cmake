# Of which build a program or plug-in is (kernels/backend/plugin.hpp): they are compiled apart and
# meet at run time, so both say the version, the compiler, and a hash of every header between them.

include(cmake/hash_of_headers.cmake)
troupe_hash_of_headers(${PROJECT_SOURCE_DIR} hash headers
                       kernels/backend/backend.hpp kernels/backend/cuda_library.hpp
                       kernels/op/every_op.hpp kernels/op/extents.hpp
                       kernels/cuda/attention_library.hpp
                       runtime/device/device.hpp runtime/collective/nccl/nccl.hpp
                       runtime/transport/wire.hpp)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${headers})
set(TROUPE_PLUGIN_BUILD "${PROJECT_VERSION} ${TROUPE_COMMIT} ${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}, headers ${hash}")

# In each plug-in. Alone, so that another commit does not compile kernels again.
add_library(plugin_build OBJECT EXCLUDE_FROM_ALL kernels/backend/plugin_build.cpp)
set_target_properties(plugin_build PROPERTIES POSITION_INDEPENDENT_CODE ON
                      CXX_VISIBILITY_PRESET hidden)
target_include_directories(plugin_build PRIVATE ${PROJECT_SOURCE_DIR})
target_compile_definitions(plugin_build PRIVATE TROUPE_PLUGIN_BUILD="${TROUPE_PLUGIN_BUILD}")
