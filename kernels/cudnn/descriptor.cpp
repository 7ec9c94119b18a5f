#include "kernels/cudnn/descriptor.hpp"

namespace troupe::kernels::cudnn {

namespace {

constexpr std::size_t longest_message = 1024;

}  // namespace

bool is_refusal(cudnnStatus_t status) {
  return (status >= CUDNN_STATUS_NOT_SUPPORTED && status < CUDNN_STATUS_NOT_SUPPORTED + 1000)
         || status == CUDNN_STATUS_INTERNAL_ERROR_COMPILATION_FAILED;
}

void check(cudnnStatus_t status, const char* what) {
  if (status == CUDNN_STATUS_SUCCESS)
    return;
  char said[longest_message] = "";
  cudnnGetLastErrorString(said, sizeof said);
  const std::string text
      = std::string(what) + ": " + cudnnGetErrorString(status) + (*said != 0 ? ", " : "") + said;
  if (is_refusal(status))
    throw not_supported(text);
  throw device_failure(text);
}

std::string library_version() {
  const std::size_t number = cudnnGetVersion();
  return std::to_string(number / 10000) + "." + std::to_string(number / 100 % 100) + "."
         + std::to_string(number % 100);
}

descriptor::descriptor(cudnnBackendDescriptorType_t type) {
  cudnnBackendDescriptor_t made = nullptr;
  check(cudnnBackendCreateDescriptor(type, &made), "creating a cuDNN object");
  handle_.reset(made);
}

void descriptor::set(cudnnBackendAttributeName_t name,
                     cudnnBackendAttributeType_t type,
                     std::int64_t count,
                     const void* values) {
  check(cudnnBackendSetAttribute(handle(), name, type, count, values),
        "describing an operation to cuDNN");
}
void descriptor::set(cudnnBackendAttributeName_t name, const descriptor& value) {
  const auto handle = value.handle();
  set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &handle);
}
void descriptor::set(cudnnBackendAttributeName_t name, std::int64_t value) {
  set(name, CUDNN_TYPE_INT64, 1, &value);
}
void descriptor::set(cudnnBackendAttributeName_t name, bool value) {
  set(name, CUDNN_TYPE_BOOLEAN, 1, &value);
}
void descriptor::set(cudnnBackendAttributeName_t name, cudnnDataType_t value) {
  set(name, CUDNN_TYPE_DATA_TYPE, 1, &value);
}
void descriptor::set(cudnnBackendAttributeName_t name, const std::vector<std::int64_t>& values) {
  set(name, CUDNN_TYPE_INT64, std::int64_t(values.size()), values.data());
}

void descriptor::finish(const char* what) {
  check(cudnnBackendFinalize(handle()), what);
}

std::int64_t descriptor::number(cudnnBackendAttributeName_t name) const {
  std::int64_t out = 0, count = 0;
  check(cudnnBackendGetAttribute(handle(), name, CUDNN_TYPE_INT64, 1, &count, &out),
        "querying a cuDNN object");
  return out;
}

descriptor properties_of_device(int number) {
  descriptor out(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  const std::int32_t id = number;
  out.set(CUDNN_ATTR_DEVICEPROP_DEVICE_ID, CUDNN_TYPE_INT32, 1, &id);
  out.finish("asking cuDNN for the properties of a device");
  return out;
}

descriptor properties_from_text(const std::string& json) {
  descriptor out(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  out.set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
          CUDNN_TYPE_CHAR,
          std::int64_t(json.size()),
          json.data());
  out.finish("telling cuDNN the properties of a device");
  return out;
}

}  // namespace troupe::kernels::cudnn
