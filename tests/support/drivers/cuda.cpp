// A fake CUDA driver with two GPUs: only the functions that `troupe doctor` calls.

#include <cstdio>

extern "C" {

int cuInit(unsigned) {
  return 0;
}

int cuDriverGetVersion(int* out) {
  *out = 12040;
  return 0;
}

int cuDeviceGetCount(int* out) {
  *out = 2;
  return 0;
}

int cuDeviceGetName(char* out, int size, int device) {
  std::snprintf(out, unsigned(size), "Planted GPU %d", device);
  return 0;
}
}
