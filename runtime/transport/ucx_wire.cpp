#include "runtime/transport/ucx_wire.hpp"

#include "kernels/backend/plugin.hpp"
#include "runtime/core/error.hpp"

#include <cstdlib>
#include <mutex>

namespace troupe::runtime {

namespace {

const kernels::plugin& open_ucx() {
  static std::once_flag once;
  std::call_once(once, [] {
    ::setenv("UCX_HANDLE_ERRORS", "none", 0);  // else it catches SIGSEGV and its like
    ::setenv("UCX_MEM_EVENTS", "n", 0);        // else it rewrites mmap and free of this process
    ::setenv("UCX_LOG_LEVEL", "fatal", 0);     // what fails is told as our errors
  });
  const auto& out = kernels::plugin::open("ucx");
  if (!out)
    throw io_error(
        "there is no UCX: {}; install libucx0 and a troupe that was built with it, or give "
        "--transport tickets",
        out.reason());
  return out;
}

}  // namespace

std::unique_ptr<wire> make_ucx_wire(wire_owner& owner, const wire_settings& how) {
  try {
    return std::unique_ptr<wire>(open_ucx().function<wire_maker>("troupe_ucx_wire")(owner, how));
  } catch (const error&) {
    throw;
  } catch (const std::runtime_error& failure) {
    throw io_error("{}", failure.what());
  }
}

}  // namespace troupe::runtime
