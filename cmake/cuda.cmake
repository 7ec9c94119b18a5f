# The plug-ins for NVIDIA's devices (kernels/backend/plugin.hpp): built where nvcc is, opened at run
# time where a driver is. The program itself links none of this.
#
#   TROUPE_CUDA   AUTO (default): where nvcc is found; ON: it must be; OFF: not even then

set(TROUPE_CUDA "AUTO" CACHE STRING "Build the CUDA plug-ins: AUTO, ON or OFF")
set(TROUPE_CUDA_ARCHITECTURES "80-real;90a-real;90-virtual" CACHE STRING
    "As CMake's CUDA_ARCHITECTURES: A100, H100 and H200, and PTX for what comes after")

string(REPLACE ";" "," architectures "${TROUPE_CUDA_ARCHITECTURES}")
set(TROUPE_ARCHITECTURES_DEFINITION "TROUPE_CUDA_ARCHITECTURES=\"${architectures}\"")

set(TROUPE_CUDA_BUILT OFF)
if(NOT TROUPE_CUDA STREQUAL "OFF" AND NOT TROUPE_SANITIZE)  # which know nothing of devices
  find_package(CUDAToolkit 12.0 QUIET)
  if(CUDAToolkit_FOUND AND CUDAToolkit_NVCC_EXECUTABLE)
    set(CMAKE_CUDA_COMPILER ${CUDAToolkit_NVCC_EXECUTABLE} CACHE FILEPATH "nvcc")
    set(CMAKE_CUDA_ARCHITECTURES ${TROUPE_CUDA_ARCHITECTURES})
    if(TROUPE_CCACHE AND NOT CMAKE_CUDA_COMPILER_LAUNCHER)
      set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
    endif()
    enable_language(CUDA)
    if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know that nvcc has it
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION --std=c++20)
      set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION --std=c++20)
    endif()
    set(CMAKE_CUDA_STANDARD 20)
    set(CMAKE_CUDA_STANDARD_REQUIRED ON)
    set(CMAKE_CUDA_EXTENSIONS OFF)
    set(TROUPE_CUDA_BUILT ON)
  elseif(TROUPE_CUDA STREQUAL "ON")
    message(FATAL_ERROR "TROUPE_CUDA is ON, but no CUDA toolkit of version 12 or later with nvcc "
                        "was found: install one, or say where it is with -DCUDAToolkit_ROOT=...")
  endif()
endif()

# troupe_plugin(<name> <source>... LIBRARIES <library>...): libtroupe_<name>.so beside the programs.
# The program exports nothing to it: but for headers it has all that it uses, and may open others.
function(troupe_plugin name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "LIBRARIES")
  if(NOT arg_UNPARSED_ARGUMENTS)
    return()
  endif()
  add_library(plugin_${name} MODULE EXCLUDE_FROM_ALL ${arg_UNPARSED_ARGUMENTS}
              ${PROJECT_SOURCE_DIR}/kernels/backend/plugin.cpp $<TARGET_OBJECTS:plugin_build>)
  set_target_properties(plugin_${name} PROPERTIES OUTPUT_NAME troupe_${name}
                        CUDA_RUNTIME_LIBRARY Static CUDA_VISIBILITY_PRESET hidden
                        CXX_VISIBILITY_PRESET hidden
                        LIBRARY_OUTPUT_DIRECTORY ${CMAKE_RUNTIME_OUTPUT_DIRECTORY})
  target_include_directories(plugin_${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_compile_options(plugin_${name} PRIVATE
    $<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wshadow;-Wno-missing-field-initializers>
    $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr;--Werror=cross-execution-space-call;-Xcompiler=-Wall>)
  target_link_libraries(plugin_${name} PRIVATE ${arg_LIBRARIES})
  target_link_options(plugin_${name} PRIVATE LINKER:--no-undefined)
  add_dependencies(plugins plugin_${name})
  install(TARGETS plugin_${name} LIBRARY DESTINATION lib/troupe COMPONENT cuda)
endfunction()

add_custom_target(plugins ALL)
if(TROUPE_CUDA_BUILT)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/kernels/cuda/*.cu
       ${PROJECT_SOURCE_DIR}/kernels/cuda/*.cpp ${PROJECT_SOURCE_DIR}/runtime/device/cuda/*.cpp)
  troupe_plugin(cuda ${sources} LIBRARIES CUDA::cublasLt)
  set_source_files_properties(kernels/cuda/architecture.cpp PROPERTIES COMPILE_DEFINITIONS
                              ${TROUPE_ARCHITECTURES_DEFINITION})
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/kernels/cudnn/*.cpp)
  find_library(TROUPE_CUDNN cudnn HINTS ${CUDAToolkit_LIBRARY_DIR})
  if(TROUPE_CUDNN)
    troupe_plugin(cudnn ${sources} LIBRARIES ${TROUPE_CUDNN} CUDA::cudart_static)
  endif()
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/runtime/collective/nccl/*.cpp)
  find_library(TROUPE_NCCL nccl HINTS ${CUDAToolkit_LIBRARY_DIR})
  if(TROUPE_NCCL)
    troupe_plugin(nccl ${sources} LIBRARIES ${TROUPE_NCCL} CUDA::cudart_static)
  endif()
endif()
