// Plug-ins: libraries of ours that need a vendor's, opened when they are asked for, so that the
// same program starts on a machine that has neither.
//
//   libtroupe_cuda.so    kernels/cuda, runtime/device/cuda     the CUDA runtime, cuBLASLt
//   libtroupe_cudnn.so   kernels/cudnn                         cuDNN
//   libtroupe_nccl.so    runtime/collective/nccl               NCCL
//   libtroupe_ucx.so     runtime/transport/ucx                 UCX
//
// They are looked for in the folder that the environment variable TROUPE_PLUGINS names, and nowhere
// else; where it is not set or empty, beside the program, in ../lib/troupe from there, then in the
// folders `troupe` of its RUNPATH: an installed package's. (Those of one folder go together: a real
// cuDNN cannot work on an emulated device.) A plug-in is of the same build as the program: both say
// so, with a hash of the headers between them (cmake/plugin_build.cmake); another is refused.
//
// Each exports `troupe_plugin_build`, which says of which build it is, and `troupe_plugin_library`,
// the vendor's library that it runs on: "cuDNN 9.19.0".

#pragma once

#include <string>

/// Before the definition of a function that a plug-in exports: everything else in it is hidden.
#define TROUPE_PLUGIN_FUNCTION extern "C" __attribute__((visibility("default")))

namespace troupe::kernels {

/// A plug-in that was opened, or why it was not. It stays open until the process ends.
class plugin {
 public:
  /// Opens "libtroupe_<name>.so". Does not throw; the same object for the same name. Any thread.
  static const plugin& open(const std::string& name);

  /// The file that `open` would open; empty where there is none.
  static std::string find(const std::string& name);

  explicit operator bool() const { return handle_ != nullptr; }
  const std::string& path() const { return path_; }
  /// Empty when it is open: what was tried and what the system said, a sentence without its end.
  const std::string& reason() const { return reason_; }

  /// The C function of that name. Throws std::logic_error when the plug-in does not have it
  /// (PLUGIN-1).
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

/// What both sides of a plug-in say of their build.
const char* build_of_plugins();

}  // namespace troupe::kernels
