#include "runtime/machine/accelerators.hpp"

#include "kernels/backend/backend.hpp"
#include "kernels/backend/plugin.hpp"

#include <algorithm>

namespace troupe::runtime {
namespace {

using kernels::plugin;

plugin_facts look_at(const std::string& name, bool may_open) {
  plugin_facts out{.name = name, .path = plugin::find(name)};
  if (out.path.empty() || !may_open)
    return out;
  const auto& found = plugin::open(name);
  out.opened = bool(found);
  out.reason = found.reason();
  if (out.opened)
    out.library = found.function<const char*()>("troupe_plugin_library")();
  return out;
}

/// Facts that need no working device: they are also reported for a device that is too old.
void ask_driver(const plugin& from, accelerator_facts& out) {
  try {
    auto& driver = *from.function<device_driver*()>("troupe_device_driver")();
    out.driver = driver.facts();
    for (int d = 0; d < driver.count(); ++d)
      out.devices.push_back(driver.facts(d));
  } catch (const device_failure& e) {
    if (out.cuda.obstacle.empty())
      out.cuda.obstacle = e.what();
  }
}

}  // namespace

accelerator_facts look_at_accelerators(bool may_open) {
  accelerator_facts out{.cuda = look_at("cuda", may_open),
                        .cudnn = look_at("cudnn", may_open),
                        .nccl = look_at("nccl", may_open)};
  if (!out.cuda.opened)
    return out;
  const auto& from = plugin::open("cuda");
  out.cuda.obstacle = from.function<const char*()>("troupe_cuda_obstacle")();
  ask_driver(from, out);
  try {
    out.attention = from.function<const char*()>("troupe_cuda_attention")();
  } catch (const kernels::backend_missing& e) {
    out.attention_obstacle = e.what();
  }
  if (out.cudnn.opened)
    out.cudnn.obstacle
        = plugin::open("cudnn").function<const char*()>("troupe_attention_obstacle")();
  const bool used = out.cudnn.opened && out.attention.find(out.cudnn.library) != std::string::npos;
  const auto able = std::find_if(
      out.devices.begin(), out.devices.end(), [](const auto& d) { return d.obstacle.empty(); });
  if (used && able != out.devices.end())
    out.attention_missing
        = plugin::open("cudnn").function<const char*(int)>("troupe_attention_trial")(able->number);
  return out;
}

}  // namespace troupe::runtime
