#include "runtime/telemetry/operation_profile.hpp"

#include "runtime/core/json_text.hpp"
#include "runtime/file/file.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace troupe::runtime {

namespace {

double seconds_of(const std::vector<operation_time>& all) {
  double sum = 0;
  for (const auto& x : all)
    sum += x.seconds;
  return sum;
}

std::string sizes_of(const operation_kind& kind) {
  const auto& [R, N, K] = kind.extents;
  return R == 0 ? "" : fmt::format(" {} x {} x {}", R, N, K);
}

/// Rate in units of 1e9 or 1e12 per second; empty if there is nothing to count.
std::string rate(double amount, double seconds, double unit) {
  return amount > 0 && seconds > 0 ? fmt::format("{:.3g}", amount / seconds / unit) : "";
}

}  // namespace

void operation_profile::add(const std::vector<operation_time>& times,
                            std::uint64_t steps,
                            double seconds) {
  const std::lock_guard lock(mutex_);
  steps_ += steps;
  seconds_ += seconds;
  for (const auto& x : times) {
    auto& sum = all_.try_emplace(x.kind, operation_time{x.kind}).first->second;
    sum.calls += x.calls;
    sum.seconds += x.seconds;
    sum.flops += x.flops;
    sum.bytes += x.bytes;
  }
}

std::uint64_t operation_profile::steps() const {
  const std::lock_guard lock(mutex_);
  return steps_;
}

std::vector<operation_time> operation_profile::times() const {
  std::vector<operation_time> out;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [kind, x] : all_)
      out.push_back(x);
  }
  std::stable_sort(
      out.begin(), out.end(), [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
  return out;
}

double operation_profile::step_ms() const {
  const std::lock_guard lock(mutex_);
  return steps_ == 0 ? 0 : seconds_ * 1e3 / double(steps_);
}

double operation_profile::between_ms() const {
  const double inside = seconds_of(times());
  const auto n = steps();
  return n == 0 ? 0 : step_ms() - inside * 1e3 / double(n);
}

std::vector<std::string> operation_profile::table(std::size_t most) const {
  const auto all = times();
  const double step = step_ms(), n = double(steps());
  std::vector<std::string> out;
  if (n == 0)
    return {"no step was timed: the first two are not counted"};
  const auto line = [&](double ms,
                        const std::string& calls,
                        const std::string& flops,
                        const std::string& bytes,
                        const std::string& what) {
    out.push_back(fmt::format("{:6.1f} % {:>9.3f} {:>7} {:>8} {:>8}  {}",
                              100 * ms / step,
                              ms,
                              calls,
                              flops,
                              bytes,
                              what));
  };
  out.push_back(fmt::format("{:>8} {:>9} {:>7} {:>8} {:>8}  {}",
                            "share",
                            "ms",
                            "calls",
                            "TFLOP/s",
                            "GB/s",
                            "operation, of a worker's step"));
  for (std::size_t i = 0; i < std::min(most, all.size()); ++i) {
    const auto& x = all[i];
    const double calls = double(x.calls);
    line(x.seconds * 1e3 / n,
         fmt::format("{:.0f}", calls / n),
         rate(x.flops, x.seconds, 1e12),
         rate(x.bytes, x.seconds, 1e9),
         fmt::format("{}{}", x.kind.name, sizes_of(x.kind)));
  }
  if (all.size() > most) {
    const std::vector<operation_time> rest(all.begin() + std::ptrdiff_t(most), all.end());
    double calls = 0;
    for (const auto& x : rest)
      calls += double(x.calls);
    line(seconds_of(rest) * 1e3 / n,
         fmt::format("{:.0f}", calls / n),
         "",
         "",
         fmt::format("{} others", rest.size()));
  }
  line(between_ms(), "", "", "", "between operations: waits, copies, messages");
  line(step, "", "", "", "all");
  return out;
}

void operation_profile::write_json(const std::filesystem::path& path) const {
  nlohmann::ordered_json out{{"steps", steps()},
                             {"step_ms", step_ms()},
                             {"between_ms", between_ms()},
                             {"operations", nlohmann::ordered_json::array()}};
  const double n = double(std::max<std::uint64_t>(steps(), 1));
  for (const auto& x : times())
    out["operations"].push_back({{"name", x.kind.name},
                                 {"extents", x.kind.extents},
                                 {"flops", x.flops / double(x.calls)},
                                 {"bytes", x.bytes / double(x.calls)},
                                 {"calls_per_step", double(x.calls) / n},
                                 {"ms_per_step", x.seconds * 1e3 / n}});
  file_writer file(path);
  file.write(json_text(out, 1) + "\n");
  file.commit();
}

}  // namespace troupe::runtime
