# Unity builds: compile up to 64 sources at once. Headers, and templates that several sources use, are then compiled once
# per group. A build from scratch takes less than a third of the time. A change recompiles its whole group; use
# TROUPE_UNITY=OFF for repeated changes of one source, and for clang-tidy. The compiler takes up to 2.4 GB for a group.

option(TROUPE_UNITY "Compile many sources of a library or test program at once" ON)
set(TROUPE_UNITY_SIZE 64)
if(TROUPE_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  # GCC warns of anonymous namespaces in included files; here these are sources.
  set(TROUPE_UNITY_OPTIONS -Wshadow=local -Wno-subobject-linkage)
endif()

# Optimisation takes half of the compile time, so the presets reduce it for some targets:
#   QUICK      commands, and tests that compute a little themselves
#   TEST       all other tests, and examples; the libraries do their work
#   GLUE       code that orders computation and hardly computes: actors, some folders of runtime/
#   CHECKED    with sanitizers: further folders that hardly compute
#   COMPUTING  with sanitizers: kernels, data and schedules, which all tests need
if(TROUPE_SANITIZE)
  set(TROUPE_QUICK_OPTIONS -O0)
  set(TROUPE_TEST_OPTIONS -O0)
  set(TROUPE_GLUE_OPTIONS -O0)
  set(TROUPE_CHECKED_OPTIONS -O0)
  set(TROUPE_COMPUTING_OPTIONS -O2)
elseif(CMAKE_BUILD_TYPE STREQUAL "None" AND CMAKE_CXX_FLAGS MATCHES "-O2")
  set(TROUPE_QUICK_OPTIONS -O1)
  set(TROUPE_TEST_OPTIONS -O0)
  set(TROUPE_GLUE_OPTIONS -O1)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  # The unit is kB. GCC collects garbage from 128 MB on by default. Later collection takes a tenth less time and up to a
  # third more memory.
  target_compile_options(troupe_options INTERFACE
                         $<$<COMPILE_LANGUAGE:CXX>:--param=ggc-min-heapsize=500000>)
endif()

# troupe_unity(<target>): makes a library a unity build. Names in anonymous namespaces must differ within a library.
# A source with its own options or definitions is compiled alone.
function(troupe_unity target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${TROUPE_UNITY}
                        UNITY_BUILD_BATCH_SIZE ${TROUPE_UNITY_SIZE})
  target_compile_options(${target} PRIVATE ${TROUPE_UNITY_OPTIONS})
endfunction()

# troupe_unity_of_tests(<variable> <name> <source>...): sets <variable> to the sources to compile instead of these.
# Each test source gets its own namespace, so names of helpers may repeat. A source that opens a namespace of the
# library is compiled alone.
function(troupe_unity_of_tests variable name)
  if(NOT TROUPE_UNITY)
    set(${variable} ${ARGN} PARENT_SCOPE)
    return()
  endif()
  set(made)
  set(rest)
  foreach(source ${ARGN})
    # Reconfigures when the source changes.
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${source})
    file(STRINGS ${source} opened REGEX "^namespace [a-z_:]+ {|^CAF_BEGIN")
    if(opened)
      list(APPEND made ${source})
    else()
      list(APPEND rest ${source})
    endif()
  endforeach()
  while(rest)
    list(LENGTH rest length)
    if(length GREATER TROUPE_UNITY_SIZE)
      list(SUBLIST rest 0 ${TROUPE_UNITY_SIZE} some)
      list(SUBLIST rest ${TROUPE_UNITY_SIZE} -1 rest)
    else()
      set(some ${rest})
      set(rest)
    endif()
    list(LENGTH made number)
    set(out ${PROJECT_BINARY_DIR}/unity/${name}_${number}.cpp)
    add_custom_command(OUTPUT ${out}
      COMMAND ${CMAKE_COMMAND} -D ROOT=${PROJECT_SOURCE_DIR} -D OUT=${out} -D "SOURCES=${some}"
              -P ${PROJECT_SOURCE_DIR}/cmake/unity_of_tests.cmake
      DEPENDS ${some} ${PROJECT_SOURCE_DIR}/cmake/unity_of_tests.cmake COMMENT "" VERBATIM)
    list(APPEND made ${out})
  endwhile()
  set(${variable} ${made} PARENT_SCOPE)
endfunction()
