#include "actors/simulation/mix.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace troupe::actors::simulation {
namespace {

constexpr std::uint64_t us = 1000, ms = 1000 * us, s = 1000 * ms;

std::string_view name_of(mix::order x) {
  switch (x) {
    case mix::order::uniform:
      return "uniform";
    case mix::order::priorities:
      return "priorities";
    case mix::order::starving:
      return "starving";
    default:
      return "in turn";
  }
}

}  // namespace

mix draw_mix(choices& from) {
  mix out{.salt = from.next()};
  out.by = from.one_of({mix::order::uniform,
                        mix::order::uniform,
                        mix::order::priorities,
                        mix::order::starving,
                        mix::order::in_turn});
  if (out.by == mix::order::priorities)
    for (auto n = from.below(6); n > 0; --n)
      out.change_points.push_back(from.below(2000));
  out.goes_on = from.one_of({0.0, 0.0, 0.5, 0.9});
  out.early_timer = from.one_of({0.0, 0.0, 0.01, 0.2});
  out.early_within_ns = from.one_of({ms, ms, 100 * ms, s});
  out.delayed = from.one_of({0.0, 0.0, 0.05, 0.3, 1.0});
  out.longest_delay_ns = from.one_of({10 * us, ms, 100 * ms});
  out.late_news = from.one_of({0.0, 0.0, 0.3, 1.0});
  out.slow_lane = from.one_of({0.0, 0.0, 0.05, 0.5});
  out.longest_work_ns = from.one_of({10 * us, ms, s});
  out.host_latency_ns = from.one_of({std::uint64_t{0}, 20 * us});
  out.network_latency_ns = from.one_of({50 * us, ms});
  return out;
}

std::string to_string(const mix& x) {
  return fmt::format(
      "{}, changes at {}, repeats {}, early timers {} within {} ns, delayed {} up to {} ns, late "
      "news {}, slow work {} up to {} ns, latency {} and {} ns",
      name_of(x.by),
      x.change_points,
      x.goes_on,
      x.early_timer,
      x.early_within_ns,
      x.delayed,
      x.longest_delay_ns,
      x.late_news,
      x.slow_lane,
      x.longest_work_ns,
      x.host_latency_ns,
      x.network_latency_ns);
}

}  // namespace troupe::actors::simulation
