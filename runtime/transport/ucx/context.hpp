// Owning handles of UCX objects. Used only by the wire's thread.

#pragma once

#include <ucp/api/ucp.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace troupe::runtime::ucx {

struct context_end {
  void operator()(ucp_context_h x) const { ucp_cleanup(x); }
};
struct worker_end {
  void operator()(ucp_worker_h x) const { ucp_worker_destroy(x); }
};
using context = std::unique_ptr<std::remove_pointer_t<ucp_context_h>, context_end>;
using worker = std::unique_ptr<std::remove_pointer_t<ucp_worker_h>, worker_end>;

/// Throws std::runtime_error with what was tried and UCX's reason.
void require(ucs_status_t said, const std::string& tried);

/// Restricts UCX to that network interface unless UCX_NET_DEVICES is set, and excludes queues in
/// shared memory unless UCX_TLS is set.
context make_context(const std::string& interface);
worker make_worker(const context& of);
/// The worker's address for its peer, as bytes.
std::string address_of(const worker& x);
/// Arms the wakeup descriptor. Returns false when work is pending and the thread must not sleep.
/// Throws on other failures.
bool arm(const worker& x);
/// The descriptor to wait for with epoll.
int wakeup_of(const worker& x);
bool takes_device_memory(const context& x);

}  // namespace troupe::runtime::ucx
