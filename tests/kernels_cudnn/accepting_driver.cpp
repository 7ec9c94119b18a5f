// A fake CUDA driver that accepts code and never runs it. cuDNN can then make plans on a machine
// without a device. Calls that need a device are refused.

#include <cstddef>

namespace {

constexpr int success = 0, not_supported = 801;
int something;  // target of all handles

}  // namespace

extern "C" {

int cuDriverGetVersion(int* version) {
  *version = 13000;
  return success;
}
int cuGetErrorName(int, const char** text) {
  *text = "CUDA_ERROR_NOT_SUPPORTED";
  return success;
}
int cuGetErrorString(int, const char** text) {
  *text = "this driver runs nothing";
  return success;
}
int cuLibraryLoadData(void** library, const void*, void*, void*, unsigned, void*, void*, unsigned) {
  *library = &something;
  return success;
}
int cuLibraryUnload(void*) {
  return success;
}
int cuLibraryGetKernel(void** kernel, void*, const char*) {
  *kernel = &something;
  return success;
}
int cuKernelGetFunction(void** function, void*) {
  *function = &something;
  return success;
}
int cuKernelSetAttribute(int, int, void*, int) {
  return success;
}
int cuKernelGetAttribute(int* value, int, void*, int) {
  *value = 0;
  return success;
}
int cuModuleLoadData(void** library, const void*) {
  *library = &something;
  return success;
}
int cuModuleLoadDataEx(void** library, const void*, unsigned, void*, void*) {
  *library = &something;
  return success;
}
int cuModuleUnload(void*) {
  return success;
}
int cuModuleGetFunction(void** kernel, void*, const char*) {
  *kernel = &something;
  return success;
}
int cuFuncSetAttribute(void*, int, int) {
  return success;
}
int cuFuncGetAttribute(int* value, int, void*) {
  *value = 0;
  return success;
}
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void*, int, std::size_t) {
  *blocks = 1;
  return success;
}
int cuOccupancyMaxPotentialClusterSize(int* size, void*, void*) {
  *size = 8;
  return success;
}

#define TROUPE_REFUSED(name) \
  int name() {               \
    return not_supported;    \
  }
TROUPE_REFUSED(cuCtxGetCurrent)
TROUPE_REFUSED(cuCtxGetDevice)
TROUPE_REFUSED(cuCtxGetLimit)
TROUPE_REFUSED(cuCtxPopCurrent)
TROUPE_REFUSED(cuCtxPushCurrent)
TROUPE_REFUSED(cuDeviceGet)
TROUPE_REFUSED(cuDeviceGetAttribute)
TROUPE_REFUSED(cuDeviceGetCount)
TROUPE_REFUSED(cuDevicePrimaryCtxRelease)
TROUPE_REFUSED(cuDevicePrimaryCtxReset)
TROUPE_REFUSED(cuDevicePrimaryCtxRetain)
TROUPE_REFUSED(cuInit)
TROUPE_REFUSED(cuLaunchCooperativeKernel)
TROUPE_REFUSED(cuLaunchKernel)
TROUPE_REFUSED(cuLaunchKernelEx)
TROUPE_REFUSED(cuLibraryLoadFromFile)
TROUPE_REFUSED(cuLinkAddData)
TROUPE_REFUSED(cuLinkAddData_v2)
TROUPE_REFUSED(cuLinkAddFile_v2)
TROUPE_REFUSED(cuLinkComplete)
TROUPE_REFUSED(cuLinkCreate)
TROUPE_REFUSED(cuLinkCreate_v2)
TROUPE_REFUSED(cuLinkDestroy)
TROUPE_REFUSED(cuMemcpyDtoH_v2)
TROUPE_REFUSED(cuModuleGetGlobal_v2)
TROUPE_REFUSED(cuModuleLoadFatBinary)
TROUPE_REFUSED(cuStreamGetCtx)
TROUPE_REFUSED(cuStreamSynchronize)
TROUPE_REFUSED(cuTensorMapEncodeIm2col)
TROUPE_REFUSED(cuTensorMapEncodeTiled)
#undef TROUPE_REFUSED

}  // extern "C"
