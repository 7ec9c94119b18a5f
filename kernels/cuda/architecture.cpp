#include "kernels/cuda/architecture.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>

namespace troupe::kernels::cuda {

namespace {

/// Minimum capability: kernels use bf16 and asynchronous copies.
constexpr int oldest = 80;

constexpr std::string_view built = TROUPE_CUDA_ARCHITECTURES;

/// Splits "90a-real" into 90 and "a-real"; 0 for an entry without a number.
struct architecture_name {
  int made_for = 0;
  std::string_view kind;

  explicit architecture_name(std::string_view name) {
    const auto* const end = std::from_chars(name.data(), name.data() + name.size(), made_for).ptr;
    kind = name.substr(std::size_t(end - name.data()));
  }
};

bool one_runs_on(std::string_view name, int device) {
  const architecture_name x(name);
  const auto made_for = x.made_for;
  const auto kind = x.kind;
  if (made_for == 0)
    return true;
  const bool same_major = device / 10 == made_for / 10;
  if (kind.starts_with('f'))  // a family: its PTX is limited to it, too
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

device_code code_for(std::string_view architectures, int major, int minor) {
  const int device = 10 * major + minor;
  device_code out;
  while (!architectures.empty()) {
    const auto comma = std::min(architectures.find(','), architectures.size());
    const auto name = architectures.substr(0, comma);
    architectures.remove_prefix(std::min(comma + 1, architectures.size()));
    const architecture_name x(name);
    if (x.made_for == 0 || !runs_on(name, major, minor))
      continue;
    const device_code found{x.made_for,
                            x.kind.ends_with("-virtual") || device / 10 != x.made_for / 10};
    const bool is_better = found.is_ptx == out.is_ptx ? found.made_for > out.made_for : out.is_ptx;
    if (out.made_for == 0 || is_better)
      out = found;
  }
  return out;
}

device_code code_of_build_for(int major, int minor) {
  return code_for(built, major, minor);
}

std::string architecture_obstacle(int major, int minor) {
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
