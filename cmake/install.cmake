# Install rules. Components: program, development.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/troupe)

# --- program -----------------------------------------------------------------------------------

install(TARGETS troupe RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)
string(TIMESTAMP TROUPE_CONFIGURED "%a, %d %b %Y %H:%M:%S +0000" UTC)
configure_file(cmake/changelog.in changelog)
execute_process(COMMAND gzip -9nf changelog WORKING_DIRECTORY ${PROJECT_BINARY_DIR})
install(FILES README.md LICENSE cmake/copyright ${PROJECT_BINARY_DIR}/changelog.gz
        DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program)
# The program writes its own manual and completions.
set(usage ${PROJECT_BINARY_DIR}/usage)
add_custom_command(OUTPUT ${usage}/done
  COMMAND ${CMAKE_COMMAND} -E rm -rf ${usage}
  COMMAND ${CMAKE_COMMAND} -E make_directory ${usage}
  COMMAND troupe manual --output ${usage}/man1
  COMMAND gzip -9nr ${usage}/man1
  COMMAND troupe completion bash > ${usage}/troupe
  COMMAND troupe completion zsh > ${usage}/_troupe
  COMMAND troupe completion fish > ${usage}/troupe.fish
  COMMAND ${CMAKE_COMMAND} -E touch ${usage}/done
  DEPENDS troupe VERBATIM)
add_custom_target(usage ALL DEPENDS ${usage}/done)
install(DIRECTORY ${usage}/man1 DESTINATION ${CMAKE_INSTALL_MANDIR} COMPONENT program)
install(FILES ${usage}/troupe DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
        COMPONENT program)
install(FILES ${usage}/_troupe DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions
        COMPONENT program)
install(FILES ${usage}/troupe.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d
        COMPONENT program)
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/docs COMPONENT program)
install(DIRECTORY examples/clusters examples/configurations examples/kubernetes examples/schedules
        DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples COMPONENT program)
install(DIRECTORY examples/monitoring DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples COMPONENT program
        PATTERN *.py PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
install(DIRECTORY examples/slurm examples/mpi examples/ssh DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples
        USE_SOURCE_PERMISSIONS COMPONENT program)
install(FILES examples/README.md DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples COMPONENT program)
install(PROGRAMS examples/best_checkpoint.py examples/draw_trace.py examples/quickstart.sh examples/install_packages.sh
        examples/11_two_hosts.sh examples/12_kill_9.sh examples/14_experts.sh
        examples/15_fine_tuning.sh examples/16_reversing.sh
        DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples COMPONENT program)

# --- development -------------------------------------------------------------------------------

# Headers keep their folders, so programs include them as the project's sources do. Internal headers are not
# installed: the backends behind kernels/backend, and the program.
install(DIRECTORY kernels/op kernels/backend DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/troupe/kernels
        COMPONENT development FILES_MATCHING PATTERN *.hpp)
install(DIRECTORY runtime messages DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/troupe
        COMPONENT development FILES_MATCHING PATTERN *.hpp PATTERN runtime/transport/ucx EXCLUDE
        PATTERN runtime/object/curl_library.hpp EXCLUDE PATTERN runtime/http/session.hpp EXCLUDE
        PATTERN runtime/http/request_reader.hpp EXCLUDE)
install(DIRECTORY actors DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/troupe
        COMPONENT development FILES_MATCHING PATTERN *.hpp PATTERN actors/command EXCLUDE)
install(DIRECTORY examples/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples COMPONENT development
        FILES_MATCHING PATTERN *.cpp PATTERN *.hpp PATTERN CMakeLists.txt
        PATTERN configurations EXCLUDE PATTERN monitoring EXCLUDE PATTERN schedules EXCLUDE
        PATTERN slurm EXCLUDE PATTERN mpi EXCLUDE PATTERN ssh EXCLUDE PATTERN kubernetes EXCLUDE)
install(FILES cmake/copyright ${PROJECT_BINARY_DIR}/changelog.gz
        DESTINATION ${CMAKE_INSTALL_DOCDIR}-dev COMPONENT development)

get_property(libraries GLOBAL PROPERTY TROUPE_LIBRARIES)
add_custom_target(all_installed DEPENDS troupe usage plugin_ucx ${libraries})
foreach(library ${libraries})
  string(REGEX REPLACE "^troupe_" "" exported ${library})
  set_target_properties(${library} PROPERTIES EXPORT_NAME ${exported})
endforeach()
install(TARGETS ${libraries} EXPORT troupe COMPONENT development
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
        INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/troupe)
install(CODE [[
  if(CMAKE_INSTALL_DO_STRIP)  # CMake does not strip archives
    file(GLOB archives $ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/lib*/libtroupe_*.a
                       $ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/lib/*/libtroupe_*.a)
    execute_process(COMMAND strip --strip-debug --enable-deterministic-archives ${archives})
  endif()]] COMPONENT development)
install(EXPORT troupe NAMESPACE troupe:: FILE troupe-targets.cmake DESTINATION ${package_dir}
        COMPONENT development)
configure_package_config_file(cmake/troupe-config.cmake.in troupe-config.cmake
                              INSTALL_DESTINATION ${package_dir})
# Before 1.0 each minor version may change the API.
write_basic_package_version_file(troupe-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/troupe-config.cmake
              ${PROJECT_BINARY_DIR}/troupe-config-version.cmake cmake/FindCAF.cmake
        DESTINATION ${package_dir} COMPONENT development)

# --- links ---------------------------------------------------------------------------------------

# Runs last, when all possible targets of links are installed.
set(drop_dead_links "
  set(documents \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DOCDIR}\")
  include(\"${CMAKE_CURRENT_SOURCE_DIR}/cmake/installed_links.cmake\")")
install(CODE "${drop_dead_links}" COMPONENT program)
