// Fake libnvidia-ml.so.1 and libcuda.so.1 for tests of the GPU meter. They have two devices. The
// second reports no power and no utilisation.

#include <cstring>

namespace {

int first, second;
constexpr int not_supported = 3;

bool is_first(void* device) {
  return device == &first;
}

}  // namespace

extern "C" {

int cuInit(unsigned) {
  return 0;
}
int cuDeviceGet(int* handle, int device) {
  *handle = device + 10;
  return device < 3 ? 0 : 101;
}
int cuDeviceGetPCIBusId(char* text, int size, int handle) {
  std::strncpy(text, handle == 10 ? "0000:3b:00.0" : handle == 11 ? "0000:af:00.0" : "no", size);
  return 0;
}

int nvmlInit_v2() {
  return 0;
}
int nvmlShutdown() {
  return 0;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char* address, void** device) {
  *device = std::strcmp(address, "0000:3b:00.0") == 0 ? &first : &second;
  return std::strncmp(address, "0000:", 5) == 0 ? 0 : 6;
}
int nvmlDeviceGetName(void* device, char* text, unsigned size) {
  std::strncpy(text, is_first(device) ? "GPU A" : "GPU B", size);
  return 0;
}
int nvmlDeviceGetPowerUsage(void* device, unsigned* milliwatts) {
  *milliwatts = 312500;
  return is_first(device) ? 0 : not_supported;
}
int nvmlDeviceGetClockInfo(void*, int type, unsigned* megahertz) {
  *megahertz = type == 1 ? 1980 : 0;
  return 0;
}
int nvmlDeviceGetUtilizationRates(void* device, unsigned* percents) {
  percents[0] = 87;
  percents[1] = 40;
  return is_first(device) ? 0 : not_supported;
}
int nvmlDeviceGetTemperature(void* device, int, unsigned* celsius) {
  *celsius = is_first(device) ? 61 : 58;
  return 0;
}
int nvmlDeviceGetMemoryInfo(void*, unsigned long long* bytes) {
  bytes[0] = 80'000'000'000;
  bytes[1] = 20'000'000'000;
  bytes[2] = 60'000'000'000;
  return 0;
}
}
