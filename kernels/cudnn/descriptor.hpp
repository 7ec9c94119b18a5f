// cuDNN backend objects: created, described by attributes, finalized.
//
// Source: NVIDIA, "cuDNN backend API", graph part. This is our own wrapper, because no package
// contains cuDNN's C++ frontend.

#pragma once

#include "kernels/backend/device_failure.hpp"

#include <cudnn.h>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

namespace troupe::kernels::cudnn {

/// cuDNN cannot compute the described operation on the device.
class not_supported : public device_failure {
 public:
  using device_failure::device_failure;
};

/// True for status 3000 to 3999 ("not supported"), and for engine code that cannot be compiled on
/// this machine; another engine may need no compiler.
bool is_refusal(cudnnStatus_t status);

/// Throws not_supported or device_failure on an error; `what` names the operation that failed.
void check(cudnnStatus_t status, const char* what);

std::string library_version();

/// One backend object. Objects that it refers to must outlive its `finish`, but not the object
/// itself.
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
  /// `what` names the operation in error messages.
  void finish(const char* what);

  std::int64_t number(cudnnBackendAttributeName_t name) const;

 private:
  struct destroy {
    void operator()(void* x) const { cudnnBackendDestroyDescriptor(x); }
  };
  std::unique_ptr<void, destroy> handle_;
};

/// Device properties for plans, from the device with this number.
descriptor properties_of_device(int number);
/// Device properties in cuDNN's JSON format, for a device that is not present.
descriptor properties_from_text(const std::string& json);

}  // namespace troupe::kernels::cudnn
