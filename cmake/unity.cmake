# Sources compiled several at once. Half of what a source costs is its headers, which are read once
# for all that are compiled together: a build from nothing takes less than a third of the time. A
# change of one source compiles its group again: TROUPE_UNITY=OFF is for those who change one source
# again and again, and for clang-tidy.

option(TROUPE_UNITY "Compile many sources of a library or test program at once" ON)
set(TROUPE_UNITY_SIZE 24)
if(TROUPE_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  # GCC warns of anonymous namespaces in whatever is included, and here sources are.
  set(TROUPE_UNITY_OPTIONS -Wshadow=local -Wno-subobject-linkage)
endif()

# An optimiser takes as long as all else, so some targets do with less of it in the presets.
#   QUICK      commands, and tests that compute a little themselves
#   TEST       all other tests, and stories, whose work the libraries do
#   GLUE       what orders computation and hardly computes: actors, some rooms of the runtime
#   CHECKED    with sanitizers: further rooms that hardly compute
#   COMPUTING  with sanitizers: kernels, data and schedules, which every test waits for
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
  # kB. GCC collects its garbage from 128 MB on; collecting later takes a tenth less time, and up to a
  # third more memory.
  target_compile_options(troupe_options INTERFACE
                         $<$<COMPILE_LANGUAGE:CXX>:--param=ggc-min-heapsize=500000>)
endif()

# troupe_unity(<target>): of a library. Names in anonymous namespaces must differ within a room.
# A source with options or definitions of its own is compiled alone.
function(troupe_unity target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${TROUPE_UNITY}
                        UNITY_BUILD_BATCH_SIZE ${TROUPE_UNITY_SIZE})
  target_compile_options(${target} PRIVATE ${TROUPE_UNITY_OPTIONS})
endfunction()

# troupe_unity_of_tests(<variable> <name> <source>...): what to compile instead of these sources.
# Each is in a namespace of its own, so that tests need not know of each other's helpers; one that
# opens a namespace of the library is compiled alone.
function(troupe_unity_of_tests variable name)
  if(NOT TROUPE_UNITY)
    set(${variable} ${ARGN} PARENT_SCOPE)
    return()
  endif()
  set(made)
  set(rest)
  foreach(source ${ARGN})
    # What follows is decided anew when the source changes.
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
