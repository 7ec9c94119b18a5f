#include "actors/stage/stage_context.hpp"

#include "runtime/telemetry/trace.hpp"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

namespace troupe::actors {

std::uint64_t clock_ns(const messages::stage_actor& of) {
  return std::uint64_t(of.home_system().clock().now().time_since_epoch().count());
}

double stage_context::longest_ms(runtime::moment begin,
                                 runtime::moment end,
                                 const runtime::stream& by) {
  timed_.emplace_back(std::move(begin), std::move(end));
  for (; !timed_.empty() && by.has_passed(timed_.front().second); timed_.pop_front()) {
    const auto from = by.ns_of(timed_.front().first);
    longest_ms_ = std::max(longest_ms_, double(by.ns_of(timed_.front().second) - from) / 1e6);
  }
  return longest_ms_;
}

void stage_context::trace(runtime::trace_recorder& to,
                          runtime::span what,
                          runtime::moment begin,
                          runtime::stream& by) {
  auto& late = late_[what.track == 0 ? 0 : 1];
  late.push_back({std::move(what), std::move(begin), by.now()});
  add_passed(to, late, by);
}

void stage_context::add_passed(runtime::trace_recorder& to, late_spans& late, runtime::stream& by) {
  while (!late.empty() && by.has_passed(late.front().end)) {
    auto& x = late.front();
    x.what.begin_ns = std::uint64_t(by.ns_of(x.begin));
    x.what.end_ns = std::uint64_t(by.ns_of(x.end));
    to.add(std::move(x.what));
    late.pop_front();
  }
}

void stage_context::trace_rest(runtime::trace_recorder& to,
                               int track,
                               runtime::stream& by) noexcept {
  auto& late = late_[track == 0 ? 0 : 1];
  try {
    for (int ms = 0; !late.empty() && ms < 1000; ++ms) {
      add_passed(to, late, by);
      if (!late.empty())
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  } catch (const runtime::device_failure&) {
    // The failed work has already reported the device failure.
  }
}

}  // namespace troupe::actors
