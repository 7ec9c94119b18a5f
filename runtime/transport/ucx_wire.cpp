#include "runtime/transport/ucx_wire.hpp"

#include "kernels/backend/plugin.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/log.hpp"
#include "runtime/core/thread.hpp"
#include "runtime/transport/handshake.hpp"

#include <cstdlib>
#include <mutex>

namespace troupe::runtime {

namespace {

const kernels::plugin& open_ucx() {
  choose_settings_of_ucx();
  const auto& out = kernels::plugin::open("ucx");
  if (!out)
    throw io_error(
        "UCX is not available: {}; install libucx0 and a troupe that was built with it, or give "
        "`transport` tickets",
        out.reason());
  return out;
}

}  // namespace

void choose_settings_of_ucx() {
  static std::once_flag once;
  std::call_once(once, [] {
    const auto choose = [](const char* name, const char* value) {
      if (std::getenv(name) == nullptr)  // a second call writes nothing
        ::setenv(name, value, 0);
    };
    choose("UCX_HANDLE_ERRORS", "none");  // otherwise UCX catches SIGSEGV and others
    choose("UCX_MEM_EVENTS", "n");        // otherwise UCX patches mmap and free of this process
    choose("UCX_LOG_LEVEL", "fatal");     // failures become exceptions here
    // A host that falls silent while its peer connects would block the wire's thread, and so all
    // other peers, for the system's timeout of two minutes.
    choose("UCX_TCP_CONN_NB", "y");
    // Workers that connect by address split large tensors into segments of this size. UCX's default
    // of 8 KiB halves the rate (docs/benchmarks/2026-11-25-wires.md).
    choose("UCX_TCP_TX_SEG_SIZE", "256k");
    choose("UCX_TCP_RX_SEG_SIZE", "256k");
  });
}

std::unique_ptr<wire> make_ucx_wire(wire_owner& owner, const wire_settings& settings) {
  auto with = settings;
  if (with.secret.empty() != with.without_secret)
    throw io_error(
        "a wire at {} was given {}: give it the secret of the run's credentials, or, in tests of "
        "one machine, `without_secret`",
        with.listen_address,
        with.without_secret ? "a secret and `without_secret`" : "no secret");
  if (!with.start_thread)
    with.start_thread = start_thread;
  if (!with.report_refusal)
    with.report_refusal = [](const std::string& what) { log_warning("{}", what); };
  if (with.build.empty())
    with.build = kernels::build_of_plugins();
  if (with.protocol == 0)
    with.protocol = wire_protocol;
  try {
    return std::unique_ptr<wire>(open_ucx().function<wire_maker>("troupe_ucx_wire")(owner, with));
  } catch (const error&) {
    throw;
  } catch (const std::runtime_error& failure) {
    throw io_error("{}", failure.what());
  }
}

}  // namespace troupe::runtime
