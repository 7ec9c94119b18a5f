# The plug-in for wires between processes (runtime/transport/wire.hpp). It is always built, because UCX is in Debian,
# and opened if a run needs it. Sanitizer builds instrument it.
file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/runtime/transport/ucx/*.cpp)
# Contains the sources of the handshake, because the program exports no symbols.
troupe_plugin(ucx ${sources} ${PROJECT_SOURCE_DIR}/runtime/core/hmac.cpp
              ${PROJECT_SOURCE_DIR}/runtime/transport/handshake.cpp
              COMPONENT program LIBRARIES troupe_options ucx::ucp ucx::ucs OpenSSL::Crypto
              Threads::Threads ${CMAKE_DL_LIBS})
troupe_unity(plugin_ucx)
