# The plug-in for wires between processes (runtime/transport/wire.hpp): UCX is in Debian, so it is
# always built, and opened where a run asks for it. Sanitizers see it, too.
file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/runtime/transport/ucx/*.cpp)
# What the handshake needs is compiled into it, too: the program exports nothing.
troupe_plugin(ucx ${sources} ${PROJECT_SOURCE_DIR}/runtime/core/hmac.cpp
              ${PROJECT_SOURCE_DIR}/runtime/transport/handshake.cpp
              COMPONENT program LIBRARIES troupe_options ucx::ucp ucx::ucs OpenSSL::Crypto
              Threads::Threads ${CMAKE_DL_LIBS})
