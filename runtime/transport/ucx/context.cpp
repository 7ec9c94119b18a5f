#include "runtime/transport/ucx/context.hpp"

#include <cstdlib>

namespace troupe::runtime::ucx {

void require(ucs_status_t said, const std::string& tried) {
  if (said != UCS_OK)
    throw std::runtime_error("UCX cannot " + tried + ": " + ucs_status_string(said));
}

context make_context(const std::string& interface) {
  ucp_config_t* config = nullptr;
  require(ucp_config_read(nullptr, nullptr, &config), "read its configuration");
  if (std::getenv("UCX_NET_DEVICES") == nullptr)
    ucp_config_modify(config, "NET_DEVICES", interface.c_str());
  // Endpoints with error handling never use posix and sysv, but each worker would allocate 4 MiB of
  // queues.
  if (std::getenv("UCX_TLS") == nullptr)
    ucp_config_modify(config, "TLS", "^posix,sysv");
  ucp_params_t params = {};
  params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME;
  params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  params.name = "troupe";
  ucp_context_h out = nullptr;
  const auto said = ucp_init(&params, config, &out);
  ucp_config_release(config);
  require(said, "start");
  return context(out);
}

worker make_worker(const context& of) {
  ucp_worker_params_t params = {};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = UCS_THREAD_MODE_SINGLE;
  ucp_worker_h out = nullptr;
  require(ucp_worker_create(of.get(), &params, &out), "make a worker");
  return worker(out);
}

std::string address_of(const worker& x) {
  ucp_address_t* bytes = nullptr;
  std::size_t size = 0;
  require(ucp_worker_get_address(x.get(), &bytes, &size), "return the address of a worker");
  const std::string out(reinterpret_cast<const char*>(bytes), size);
  ucp_worker_release_address(x.get(), bytes);
  return out;
}

int wakeup_of(const worker& x) {
  int out = -1;
  require(ucp_worker_get_efd(x.get(), &out), "return the event descriptor of a worker");
  return out;
}

bool arm(const worker& x) {
  const auto said = ucp_worker_arm(x.get());
  if (said != UCS_ERR_BUSY)
    require(said, "arm the events of a worker");
  return said == UCS_OK;
}

bool takes_device_memory(const context& x) {
  ucp_context_attr_t facts = {};
  facts.field_mask = UCP_ATTR_FIELD_MEMORY_TYPES;
  require(ucp_context_query(x.get(), &facts), "list the memory types that it reads");
  return (facts.memory_types & (std::uint64_t{1} << UCS_MEMORY_TYPE_CUDA)) != 0;
}

}  // namespace troupe::runtime::ucx
