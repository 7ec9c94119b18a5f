#include "kernels/cuda/architecture.hpp"

#include <cctype>
#include <charconv>

namespace troupe::kernels::cuda {

namespace {

/// What kernels use is there from here on: bf16, asynchronous copies.
constexpr int oldest = 80;

bool one_runs_on(std::string_view name, int device) {
  int made_for = 0;
  const auto [end, failed] = std::from_chars(name.data(), name.data() + name.size(), made_for);
  if (failed != std::errc{})
    return true;
  const auto kind = name.substr(std::size_t(end - name.data()));
  const bool same_major = device / 10 == made_for / 10;
  if (kind.starts_with('f'))  // of a family: PTX, too, stays in it
    return device >= made_for && same_major;
  if (!kind.empty() && std::isalpha(static_cast<unsigned char>(kind.front())))
    return device == made_for;
  return device >= made_for && (same_major || kind != "-real");
}

}  // namespace

bool runs_on(std::string_view architectures, int major, int minor) {
  const int device = 10 * major + minor;
  while (device >= oldest) {
    const auto comma = architectures.find(',');
    if (one_runs_on(architectures.substr(0, comma), device))
      return true;
    if (comma == std::string_view::npos)
      break;
    architectures.remove_prefix(comma + 1);
  }
  return false;
}

std::string architecture_obstacle(int major, int minor) {
  constexpr std::string_view built = TROUPE_CUDA_ARCHITECTURES;
  if (runs_on(built, major, minor))
    return "";
  const auto capability = std::to_string(major) + "." + std::to_string(minor);
  if (10 * major + minor < oldest)
    return "is of compute capability " + capability
           + ", and troupe computes on 8.0 (A100) and later";
  return "is of compute capability " + capability + ", and this build has code for "
         + std::string(built) + " (TROUPE_CUDA_ARCHITECTURES)";
}

}  // namespace troupe::kernels::cuda
