// cuDNN's backend objects: made, described by attributes, made final.
//
// NVIDIA: "cuDNN backend API", the graph part. A library of ours, not its C++ front end, because no
// package has that.

#pragma once

#include "kernels/backend/device_failure.hpp"

#include <cudnn.h>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

namespace troupe::kernels::cudnn {

/// cuDNN has nothing that computes what is described, on that device.
class not_supported : public device_failure {
 public:
  using device_failure::device_failure;
};

/// 3000 to 3999, the ways of not being supported, and that the code of an engine cannot be compiled
/// on this machine: another one may need no compiler.
bool is_refusal(cudnnStatus_t status);

/// Throws not_supported or device_failure unless all went well; `what` says what was tried.
void check(cudnnStatus_t status, const char* what);

/// "9.19.0"
std::string library_version();

/// One backend object. What it refers to must outlive its `finish`, not itself.
class descriptor {
 public:
  explicit descriptor(cudnnBackendDescriptorType_t type);
  cudnnBackendDescriptor_t handle() const { return handle_.get(); }

  void set(cudnnBackendAttributeName_t name,
           cudnnBackendAttributeType_t type,
           std::int64_t count,
           const void* values);
  void set(cudnnBackendAttributeName_t name, const descriptor& value);
  void set(cudnnBackendAttributeName_t name, std::int64_t value);
  void set(cudnnBackendAttributeName_t name, bool value);
  void set(cudnnBackendAttributeName_t name, cudnnDataType_t value);
  void set(cudnnBackendAttributeName_t name, const std::vector<std::int64_t>& values);
  /// `what` for the message of a failure.
  void finish(const char* what);

  std::int64_t number(cudnnBackendAttributeName_t name) const;

 private:
  struct destroy {
    void operator()(void* x) const { cudnnBackendDestroyDescriptor(x); }
  };
  std::unique_ptr<void, destroy> handle_;
};

/// The properties of a device, as plans are made for.
/// Of the device with that number.
descriptor properties_of_device(int number);
/// As cuDNN writes them: for a device that is not here.
descriptor properties_from_text(const std::string& json);

}  // namespace troupe::kernels::cudnn
