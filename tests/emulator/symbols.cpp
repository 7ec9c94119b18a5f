#include "tests/emulator/symbols.hpp"

#include <cstdio>
#include <cstdlib>
#include <cxxabi.h>
#include <dlfcn.h>
#include <memory>

namespace troupe::emulator {

std::string kernel_name(const void* kernel) {
  Dl_info found = {};
  if (::dladdr(kernel, &found) == 0 || found.dli_sname == nullptr || found.dli_saddr != kernel) {
    char address[32];
    std::snprintf(address, sizeof address, "at %p", kernel);
    return address;
  }
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> plain(
      abi::__cxa_demangle(found.dli_sname, nullptr, nullptr, &status), &std::free);
  return status == 0 ? plain.get() : found.dli_sname;
}

}  // namespace troupe::emulator
