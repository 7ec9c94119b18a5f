# Device tests: on the emulated device (tests/emulator), and of the real libraries without a device.

add_subdirectory(emulator)
troupe_test(emulator troupe_emulated_options)
troupe_test(kernels_cuda test_operations troupe_emulated_kernels troupe_kernels_backend SHARDS 4)

# Emulates the inexactness of a device that the tests' tolerances allow: products and approximate
# functions. Attention takes a minute: run it by hand when its tolerances change.
troupe_script_test(kernels/cuda_coarse test_kernels_cuda
                   "[operations][linear],[operations][activation],[operations][norm],[operations][adamw],[operations][cross_entropy],[operations][head_norm],[cuda][linear],[cross_entropy]~[operations]" ${filtered} AS device)
set_tests_properties(kernels/cuda_coarse PROPERTIES ENVIRONMENT TROUPE_EMULATED_COARSE=1)

# Replaces cuDNN's plug-in.
add_library(attention_for_tests MODULE EXCLUDE_FROM_ALL support/attention_plugin.cpp
            $<TARGET_OBJECTS:plugin_build>)
set_target_properties(attention_for_tests PROPERTIES OUTPUT_NAME troupe_attention_for_tests
                      LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests/plugins)
target_link_libraries(attention_for_tests PRIVATE troupe_emulated_options)
add_dependencies(test_kernels_cuda attention_for_tests)

# The same tests on a real device, with the real plug-in's objects; calls of the emulator have no
# effect. Built only by name. It reports SKIPPED without a device and leaves out tests that need the
# emulator. Tests that need a real device are in kernels_device.
if(TARGET plugin_cuda)
  add_library(attention_for_device_tests MODULE EXCLUDE_FROM_ALL support/attention_plugin.cpp
              $<TARGET_OBJECTS:plugin_build>)
  set_target_properties(attention_for_device_tests PROPERTIES
                        OUTPUT_NAME troupe_attention_for_tests
                        LIBRARY_OUTPUT_DIRECTORY ${CMAKE_RUNTIME_OUTPUT_DIRECTORY})
  target_link_libraries(attention_for_device_tests PRIVATE troupe_options CUDA::cudart_static)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS kernels_cuda/*_test.cpp kernels_device/*_test.cpp)
  # The tests link the code that opens plug-ins: in a unity build it is part of a larger object.
  add_executable(test_kernels_device EXCLUDE_FROM_ALL ${sources} support/device_control.cpp
                 support/device_main.cpp
                 $<FILTER:$<TARGET_OBJECTS:plugin_cuda>,EXCLUDE,/backend/plugin\\.cpp>)
  set_target_properties(test_kernels_device PROPERTIES LINKER_LANGUAGE CXX)
  target_link_libraries(test_kernels_device PRIVATE test_operations troupe_kernels_backend CUDA::cublasLt
                        CUDA::cudart_static Catch2::Catch2)
  add_dependencies(test_kernels_device attention_for_device_tests)
  troupe_script_test(kernels_device ${CMAKE_CURRENT_SOURCE_DIR}/support/if_built.sh
                     $<TARGET_FILE:test_kernels_device> ~[emulated] ${filtered} AS device TIMEOUT 600)
  set_tests_properties(kernels_device PROPERTIES SKIP_RETURN_CODE 77)
endif()

# The runtime and the actors on a device, through its plug-in.
troupe_test(device_cuda troupe_actors troupe_runtime_inference troupe_emulator SHARDS 2 FULL)
add_dependencies(test_device_cuda emulated_plugins)
troupe_test(collective_cuda troupe_runtime_collective troupe_emulator)
add_dependencies(test_collective_cuda emulated_plugins)
add_executable(nccl_peer support/nccl_peer.cpp)
target_link_libraries(nccl_peer PRIVATE troupe_runtime_collective)
set_target_properties(nccl_peer PROPERTIES TROUPE_TEST_PROGRAM TRUE)
foreach(check same released two_on_one_device)
  troupe_script_test(collective_cuda/processes_${check} collective_cuda/processes_test.py
                     $<TARGET_FILE:nccl_peer> ${PROJECT_BINARY_DIR}/emulated ${check} AS device
                     NEEDS nccl_peer emulated_plugins)
endforeach()

# A benchmark of device operations. The test only checks that all of them exist and run.
if(NOT TROUPE_SANITIZE)
  file(GLOB sources CONFIGURE_DEPENDS bench/gpu/*.cpp)
  add_executable(bench_gpu ${sources})
  target_compile_options(bench_gpu PRIVATE ${TROUPE_QUICK_OPTIONS})
  target_link_libraries(bench_gpu PRIVATE troupe_runtime_device)
  troupe_script_test(bench/gpu_operations bench_gpu --smoke NEEDS bench_gpu emulated_plugins)
  troupe_script_test(bench/gpu_run bench/gpu_run.py --smoke --bin $<TARGET_FILE_DIR:troupe>
                     --out ${PROJECT_BINARY_DIR}/gpu_smoke NEEDS troupe bench_gpu emulated_plugins)
  troupe_script_test(bench/gpu_processes bench/gpu_run.py --smoke --part processes --bin $<TARGET_FILE_DIR:troupe>
                     --out ${PROJECT_BINARY_DIR}/gpu_processes NEEDS troupe emulated_plugins)
  set_tests_properties(bench/gpu_operations bench/gpu_run bench/gpu_processes PROPERTIES
                       ENVIRONMENT "TROUPE_PLUGINS=${PROJECT_BINARY_DIR}/emulated")
endif()
troupe_script_test(bench/gpu_verdicts bench/gpu_run_test.py UNSANITIZED)
foreach(check same_bits choices lost_choices older_gradients refusals memory memory_estimate failing_device several_devices refused_choices saving
              occupied missing_attention preferred_attention scalar_attention rounding)
  troupe_script_test(command/gpu_${check} command/gpu_test.py
                     $<TARGET_FILE:troupe> ${PROJECT_BINARY_DIR}/emulated ${check})
endforeach()
foreach(check same_bits saved verified killed planted devices stuck)
  troupe_script_test(command/gpu_processes_${check} command/gpu_processes_test.py
                     $<TARGET_FILE:troupe> ${PROJECT_BINARY_DIR}/emulated ${check} UNSANITIZED)
endforeach()

# cuDNN's plans are made for a described device, without a real one. A fake driver accepts their
# code. NVIDIA's libraries do not support sanitizers.
if(TROUPE_CUDNN AND NOT TROUPE_SANITIZE)
  add_library(accepting_driver SHARED kernels_cudnn/accepting_driver.cpp)
  set_target_properties(accepting_driver PROPERTIES PREFIX "" SUFFIX "" OUTPUT_NAME libcuda.so.1
                        LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/accepting_driver)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/kernels/cudnn/*.cpp)
  list(FILTER sources EXCLUDE REGEX "/attention\\.cpp$")
  add_library(troupe_cudnn_plans STATIC EXCLUDE_FROM_ALL ${sources})
  target_include_directories(troupe_cudnn_plans SYSTEM PUBLIC ${CUDAToolkit_INCLUDE_DIRS})
  target_link_libraries(troupe_cudnn_plans PUBLIC troupe_kernels_op ${TROUPE_CUDNN})
  get_filename_component(libraries ${TROUPE_CUDNN} DIRECTORY)
  set(TROUPE_TEST_PROPERTIES
      ENVIRONMENT "LD_LIBRARY_PATH=${PROJECT_BINARY_DIR}/accepting_driver:${libraries}")
  troupe_test(kernels_cudnn troupe_cudnn_plans)
  unset(TROUPE_TEST_PROPERTIES)
  add_dependencies(test_kernels_cudnn accepting_driver)
else()
  troupe_script_test(kernels_cudnn/plans ${CMAKE_COMMAND} -E echo
                     "not run: no cuDNN was found when this was configured, or sanitizers are on" AS device)
  set_tests_properties(kernels_cudnn/plans PROPERTIES SKIP_REGULAR_EXPRESSION "not run")
endif()
