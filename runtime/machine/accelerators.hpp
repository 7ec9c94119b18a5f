// Facts about the device plug-ins of this machine (kernels/backend/plugin.hpp).
//
// Values only: missing hardware and libraries never throw.

#pragma once

#include "runtime/device/device.hpp"

#include <optional>
#include <string>
#include <vector>

namespace troupe::runtime {

struct plugin_facts {
  std::string name;      ///< "cuda", "cudnn", "nccl"
  std::string path;      ///< path of its file; empty if not found
  bool opened = false;   ///< false with a path and no reason: not tried
  std::string reason;    ///< why it could not be opened, without a final period
  std::string library;   ///< version of the vendor's library, "cuDNN 9.19.0"; empty if not opened
  std::string obstacle;  ///< why it cannot compute although it is open; empty if it can
};

struct accelerator_facts {
  plugin_facts cuda, cudnn, nccl;
  std::optional<driver_facts> driver;  ///< empty if the CUDA plug-in is not open or finds no device
  std::vector<device_facts> devices;
  std::string attention;           ///< the implementation in use: "attention by cuDNN 9.19.0"
  std::string attention_obstacle;  ///< why attention is not available; empty if it is
  /// Parts of a small attention that cuDNN cannot prepare on the first usable device, one line per
  /// reason, from troupe_attention_trial (kernels/cuda/attention_library.hpp). Empty if there are
  /// none, or if cuDNN is not in use.
  std::string attention_missing;
};

/// With `may_open` it loads and queries the plug-ins: a vendor library can take a second to load,
/// and a query creates a context on the device. Otherwise it only looks for their files.
accelerator_facts look_at_accelerators(bool may_open);

}  // namespace troupe::runtime
