// What the plug-ins for devices say of this machine (kernels/backend/plugin.hpp). Values only:
// nothing here throws because something is absent.

#pragma once

#include "runtime/device/device.hpp"

#include <optional>
#include <string>
#include <vector>

namespace troupe::runtime {

struct plugin_facts {
  std::string name;      ///< "cuda", "cudnn", "nccl"
  std::string path;      ///< of its file; empty: there is none
  bool opened = false;   ///< false with a path and no reason: nobody tried
  std::string reason;    ///< why it is not open, a sentence without its end
  std::string library;   ///< the vendor's, "cuDNN 9.19.0"; empty: not opened
  std::string obstacle;  ///< why it cannot compute although it is open; empty: it can
};

struct accelerator_facts {
  plugin_facts cuda, cudnn, nccl;
  std::optional<driver_facts> driver;  ///< none: the CUDA plug-in is not open, or sees no device
  std::vector<device_facts> devices;
  std::string attention;           ///< that would be used: "attention by cuDNN 9.19.0"
  std::string attention_obstacle;  ///< why there would be none; empty: there would be
  /// What of a small attention cuDNN cannot make ready on the first device that computes, as
  /// troupe_attention_trial says it (kernels/cuda/attention_library.hpp), a line for each reason;
  /// empty: nothing, or it is not used.
  std::string attention_missing;
};

/// With `may_open` the plug-ins are opened and asked; a vendor's library can take a second to load,
/// and a look at a device makes a context on it. Without it only their files are looked for.
accelerator_facts look_at_accelerators(bool may_open);

}  // namespace troupe::runtime
