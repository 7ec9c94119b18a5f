# The plug-in for wires between processes (runtime/transport/wire.hpp): UCX is in Debian, so it is
# always built, and opened where a run asks for it. Sanitizers see it, too.
file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/runtime/transport/ucx/*.cpp)
troupe_plugin(ucx ${sources} COMPONENT program LIBRARIES troupe_options ucx::ucp ucx::ucs
              Threads::Threads ${CMAKE_DL_LIBS})
