#include "runtime/telemetry/trace.hpp"

#include "runtime/core/json_text.hpp"
#include "runtime/file/file.hpp"

#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

namespace troupe::runtime {

std::uint64_t now_ns() {
  return std::uint64_t(std::chrono::steady_clock::now().time_since_epoch().count());
}

void trace_recorder::add(span x) {
  const std::lock_guard lock(mutex_);
  if (ring_.size() < capacity_)
    ring_.push_back(std::move(x));
  else if (capacity_ > 0)
    ring_[added_ % capacity_] = std::move(x);
  ++added_;
}

std::vector<span> trace_recorder::spans() const {
  const std::lock_guard lock(mutex_);
  auto out = ring_;
  if (!out.empty() && added_ > capacity_)
    std::rotate(out.begin(), out.begin() + std::ptrdiff_t(added_ % capacity_), out.end());
  return out;
}

std::uint64_t trace_recorder::dropped() const {
  const std::lock_guard lock(mutex_);
  return added_ - ring_.size();
}

void trace_recorder::write_chrome(const std::filesystem::path& path) const {
  const auto all = spans();
  auto start = std::numeric_limits<std::uint64_t>::max();
  std::set<int> ranks;
  std::set<std::pair<int, int>> tracks;
  for (const auto& x : all) {
    start = std::min(start, x.begin_ns);
    ranks.insert(x.rank);
    tracks.emplace(x.rank, x.track);
  }
  file_writer out(path);
  out.write(trace_beginning);
  const char* separator = "\n";
  const auto add = [&](const nlohmann::json& event) {
    out.write(separator + json_text(event));
    separator = ",\n";
  };
  for (const int r : ranks)
    add({{"ph", "M"},
         {"pid", r},
         {"name", "process_name"},
         {"args", {{"name", fmt::format("rank {}", r)}}}});
  for (const auto& [rank, track] : tracks)
    add({{"ph", "M"},
         {"pid", rank},
         {"tid", track},
         {"name", "thread_name"},
         {"args", {{"name", track == 0 ? "computes" : "communicates"}}}});
  for (const auto& x : all)
    add({{"ph", "X"},
         {"pid", x.rank},
         {"tid", x.track},
         {"name", x.name},
         {"ts", double(x.begin_ns - start) / 1000},
         {"dur", double(x.end_ns - x.begin_ns) / 1000},
         {"args", {{"step", value(x.step)}}}});
  out.write("\n]}\n");
  out.commit();
}

}  // namespace troupe::runtime
