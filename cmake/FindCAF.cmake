# Finds CAF 0.17 of Debian; its package has no CMake files.
#
#   find_package(CAF REQUIRED COMPONENTS core)   defines CAF::core
#
# Used by Troupe's build, and installed for programs that use Troupe.
find_package(Threads REQUIRED)
find_path(CAF_INCLUDE_DIR caf/actor_system.hpp)
foreach(part ${CAF_FIND_COMPONENTS})
  find_library(CAF_${part}_LIBRARY caf_${part})
  if(CAF_INCLUDE_DIR AND CAF_${part}_LIBRARY)
    set(CAF_${part}_FOUND TRUE)
    if(NOT TARGET CAF::${part})
      add_library(CAF::${part} UNKNOWN IMPORTED)
      set_target_properties(CAF::${part} PROPERTIES
        IMPORTED_LOCATION ${CAF_${part}_LIBRARY}
        INTERFACE_INCLUDE_DIRECTORIES ${CAF_INCLUDE_DIR}
        INTERFACE_LINK_LIBRARIES Threads::Threads)
    endif()
  endif()
endforeach()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CAF REQUIRED_VARS CAF_INCLUDE_DIR HANDLE_COMPONENTS)
mark_as_advanced(CAF_INCLUDE_DIR CAF_core_LIBRARY)
