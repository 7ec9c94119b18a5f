// Plug-ins: shared libraries that depend on a vendor's library. They are opened on first use, so
// the same program starts on a machine without the vendor's library.
//
//   libtroupe_cuda.so    kernels/cuda, runtime/device/cuda     the CUDA runtime, cuBLASLt
//   libtroupe_cudnn.so   kernels/cudnn                         cuDNN
//   libtroupe_nccl.so    runtime/collective/nccl               NCCL
//   libtroupe_ucx.so     runtime/transport/ucx                 UCX
//
// If the environment variable TROUPE_PLUGINS is set and not empty, only that folder is searched: a
// real cuDNN cannot work on an emulated device. Else the order is: the program's folder,
// ../lib/troupe from there, and the folders named `troupe` in its RUNPATH (an installed package).
//
// Plug-in and program must be of the same build. Both report a hash of their shared headers
// (cmake/plugin_build.cmake); a plug-in with another hash is refused.
//
// Each plug-in exports `troupe_plugin_build`, which returns its build, and `troupe_plugin_library`,
// which returns the version of the vendor's library: "cuDNN 9.19.0".

#pragma once

#include <string>

/// Exports a function from a plug-in; all other symbols are hidden.
#define TROUPE_PLUGIN_FUNCTION extern "C" __attribute__((visibility("default")))

namespace troupe::kernels {

/// An opened plug-in, or the reason why opening failed. It stays open until the process ends.
class plugin {
 public:
  /// Opens "libtroupe_<name>.so". Returns the same object for the same name. Thread-safe; does not
  /// throw.
  static const plugin& open(const std::string& name);

  /// The file that `open` would open; empty if there is none.
  static std::string find(const std::string& name);

  explicit operator bool() const { return handle_ != nullptr; }
  const std::string& path() const { return path_; }
  /// Empty if open; else what was tried and the system's answer, as a sentence without its full
  /// stop.
  const std::string& reason() const { return reason_; }

  /// The C function of that name. Throws std::logic_error if the plug-in lacks it (PLUGIN-1).
  template <class Function>
  Function* function(const char* name) const {
    return reinterpret_cast<Function*>(symbol(name));
  }

 private:
  explicit plugin(const std::string& name);
  bool try_to_open(const std::string& path);
  void* symbol(const char* name) const;

  void* handle_ = nullptr;
  std::string path_;
  std::string reason_;
};

/// The build that program and plug-in report.
const char* build_of_plugins();

}  // namespace troupe::kernels
