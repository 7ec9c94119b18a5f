# Sources compiled several at once. Half of what a source costs is its headers, which are read once
# for all that are compiled together: a build from nothing takes a third of the time, one after a
# change of one source that of its whole group. TROUPE_UNITY=OFF is for those who change one source
# again and again, and for clang-tidy.

option(TROUPE_UNITY "Compile many sources of a library or test program at once" ON)
set(TROUPE_UNITY_SIZE 24)
if(TROUPE_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  # The other is said of anonymous namespaces in whatever is included, and here sources are.
  set(TROUPE_UNITY_OPTIONS -Wshadow=local -Wno-subobject-linkage)
endif()

# An optimiser takes as long as all else. QUICK is for what is not waited for: commands, tests.
# GLUE is for what orders computation and does none itself: actors, most rooms of the runtime.
# COMPUTING is for kernels, data and schedules, which every test waits for.
if(TROUPE_SANITIZE)
  set(TROUPE_QUICK_OPTIONS -O0)
  set(TROUPE_COMPUTING_OPTIONS -O2)
elseif(CMAKE_CXX_FLAGS MATCHES "-O2")
  set(TROUPE_QUICK_OPTIONS -O1 -g0)
  set(TROUPE_GLUE_OPTIONS -O1)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  # GCC collects its garbage at 128 MB; later takes a tenth less time, and a third more memory.
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

# troupe_unity_of_vectors(<target>): its sources that Highway compiles for each instruction set, two
# groups of them but for those said to be ALONE, in place of CMake's unity. Names in their anonymous
# namespaces must differ within the target.
function(troupe_unity_of_vectors target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" ALONE)
  get_target_property(sources ${target} SOURCES)
  if(NOT TROUPE_UNITY)
    return()
  endif()
  set(of_vectors)
  foreach(source ${sources})
    file(STRINGS ${source} included REGEX "^#include <hwy/foreach_target.h>")
    file(RELATIVE_PATH path ${PROJECT_SOURCE_DIR} ${source})
    if(included AND NOT path IN_LIST arg_ALONE)
      list(APPEND of_vectors ${path})
      set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${source})
    endif()
  endforeach()
  # Highway's header reads again what HWY_TARGET_INCLUDE names when it is read, and the sources name
  # themselves.
  foreach(half 0 1)
    set(path unity/${target}_${half}.cpp)
    set(this "#undef HWY_TARGET_INCLUDE\n#define HWY_TARGET_INCLUDE \"${path}\"\n")
    set(text "#include \"kernels/cpu/targets.hpp\"\n\n${this}#include <hwy/foreach_target.h>\n\n")
    set(i 0)
    foreach(source ${of_vectors})
      math(EXPR of "${i} % 2")
      if(of EQUAL half)
        string(APPEND text "#include \"${source}\"\n")
        list(REMOVE_ITEM sources ${PROJECT_SOURCE_DIR}/${source})
      endif()
      math(EXPR i "${i} + 1")
    endforeach()
    file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/${path} CONTENT "${text}\n${this}" @ONLY)
    list(APPEND sources ${PROJECT_BINARY_DIR}/${path})
  endforeach()
  set_target_properties(${target} PROPERTIES SOURCES "${sources}")
  target_include_directories(${target} PRIVATE ${PROJECT_BINARY_DIR})
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
