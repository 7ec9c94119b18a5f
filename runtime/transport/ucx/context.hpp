// UCX's objects, each closed by its owner. All of the wire's one thread.

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

/// Throws std::runtime_error: what was tried, and what UCX said.
void require(ucs_status_t said, const std::string& tried);

/// Only that network interface is used, unless the user has set UCX_NET_DEVICES, and no queues in
/// shared memory, unless UCX_TLS.
context make_context(const std::string& interface);
worker make_worker(const context& of);
/// For who connects to it: plain bytes.
std::string address_of(const worker& x);
/// Who sleeps now is woken by what comes; false: there is something to do before. Throws what
/// else is wrong.
bool arm(const worker& x);
/// What epoll waits for.
int wakeup_of(const worker& x);
bool takes_device_memory(const context& x);

}  // namespace troupe::runtime::ucx
