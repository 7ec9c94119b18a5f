# The plug-ins for NVIDIA devices (kernels/backend/plugin.hpp). They are built if nvcc is found and opened at run
# time if there is a driver. The program itself does not link CUDA.
#
#   TROUPE_CUDA   AUTO (default): build if nvcc is found; ON: fail without nvcc; OFF: do not build

set(TROUPE_CUDA "AUTO" CACHE STRING "Build the CUDA plug-ins: AUTO, ON or OFF")
set(TROUPE_CUDA_ARCHITECTURES "80-real;90a-real;90-virtual" CACHE STRING
    "CMake's CUDA_ARCHITECTURES. Default: code for 8.0 (also runs on 8.6 and 8.9) and 9.0, PTX for later devices")

string(REPLACE ";" "," architectures "${TROUPE_CUDA_ARCHITECTURES}")
set(TROUPE_ARCHITECTURES_DEFINITION "TROUPE_CUDA_ARCHITECTURES=\"${architectures}\"")

set(TROUPE_CUDA_BUILT OFF)
if(NOT TROUPE_CUDA STREQUAL "OFF" AND NOT TROUPE_SANITIZE)  # sanitizers do not support devices
  find_package(CUDAToolkit 12.0 QUIET)
  if(CUDAToolkit_FOUND AND CUDAToolkit_NVCC_EXECUTABLE)
    set(CMAKE_CUDA_COMPILER ${CUDAToolkit_NVCC_EXECUTABLE} CACHE FILEPATH "nvcc")
    set(CMAKE_CUDA_ARCHITECTURES ${TROUPE_CUDA_ARCHITECTURES})
    if(TROUPE_CCACHE AND NOT CMAKE_CUDA_COMPILER_LAUNCHER)
      set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
    endif()
    enable_language(CUDA)
    if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know nvcc's C++20 option
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION --std=c++20)
      set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION --std=c++20)
    endif()
    set(CMAKE_CUDA_STANDARD 20)
    set(CMAKE_CUDA_STANDARD_REQUIRED ON)
    set(CMAKE_CUDA_EXTENSIONS OFF)
    set(TROUPE_CUDA_BUILT ON)
  elseif(TROUPE_CUDA STREQUAL "ON")
    message(FATAL_ERROR "TROUPE_CUDA is ON, but no CUDA toolkit 12 or later with nvcc was found; "
                        "install one or set -DCUDAToolkit_ROOT=FOLDER")
  endif()
endif()

if(TROUPE_CUDA_BUILT)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/kernels/cuda/*.cu
       ${PROJECT_SOURCE_DIR}/kernels/cuda/*.cpp ${PROJECT_SOURCE_DIR}/runtime/device/cuda/*.cpp)
  troupe_plugin(cuda ${sources} COMPONENT cuda LIBRARIES CUDA::cublasLt)
  set_source_files_properties(kernels/cuda/architecture.cpp PROPERTIES COMPILE_DEFINITIONS
                              ${TROUPE_ARCHITECTURES_DEFINITION})
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/kernels/cudnn/*.cpp)
  find_library(TROUPE_CUDNN cudnn HINTS ${CUDAToolkit_LIBRARY_DIR})
  if(TROUPE_CUDNN)
    troupe_plugin(cudnn ${sources} COMPONENT cuda LIBRARIES ${TROUPE_CUDNN} CUDA::cudart_static)
  endif()
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/runtime/collective/nccl/*.cpp)
  find_library(TROUPE_NCCL nccl HINTS ${CUDAToolkit_LIBRARY_DIR})
  if(TROUPE_NCCL)
    troupe_plugin(nccl ${sources} COMPONENT cuda LIBRARIES ${TROUPE_NCCL} CUDA::cudart_static)
  endif()
endif()
