# Plug-ins (kernels/backend/plugin.hpp).

add_custom_target(plugins ALL)

# troupe_plugin(<name> <source>... COMPONENT <package> LIBRARIES <library>...): makes libtroupe_<name>.so beside the
# programs. The program exports no symbols, so a plug-in contains all code that it uses. It may open other plug-ins.
function(troupe_plugin name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "COMPONENT" "LIBRARIES")
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
  # Clang's sanitizer runtime is only in the program.
  if(NOT TROUPE_SANITIZE)
    target_link_options(plugin_${name} PRIVATE LINKER:--no-undefined)
  endif()
  add_dependencies(plugins plugin_${name})
  # Optional: after the quickstart alone, which builds no plug-in, the program installs without it.
  install(TARGETS plugin_${name} LIBRARY DESTINATION lib/troupe COMPONENT ${arg_COMPONENT} OPTIONAL)
endfunction()
