#include "runtime/process/package_energy.hpp"

#include <fstream>
#include <string>
#include <system_error>

namespace troupe::runtime {
namespace {

namespace fs = std::filesystem;

std::optional<std::uint64_t> number_in(const fs::path& file) {
  std::uint64_t out = 0;
  return std::ifstream(file) >> out ? std::optional(out) : std::nullopt;
}

}  // namespace

package_energy::package_energy(const fs::path& zones) {
  std::error_code failure;
  for (fs::directory_iterator zone(zones, failure), end; !failure && zone != end;
       zone.increment(failure)) {
    const auto name = zone->path().filename().string();
    // "intel-rapl:0" is a package, "intel-rapl:0:1" a part of it.
    if (!name.starts_with("intel-rapl:") || name.find(':') != name.rfind(':'))
      continue;
    const auto counter = zone->path() / "energy_uj";
    if (const auto now = number_in(counter))
      packages_.push_back(
          {counter, number_in(zone->path() / "max_energy_range_uj").value_or(0), *now});
  }
}

std::optional<double> package_energy::joules() {
  const std::lock_guard lock(mutex_);
  if (packages_.empty())
    return {};
  for (auto& x : packages_) {
    const auto now = number_in(x.counter);
    if (!now)
      continue;
    const auto more = *now >= x.last_uj ? *now - x.last_uj
                      : x.range_uj > 0  ? *now + x.range_uj - x.last_uj
                                        : 0;
    used_ += double(more) / 1e6;
    x.last_uj = *now;
  }
  return used_;
}

}  // namespace troupe::runtime
