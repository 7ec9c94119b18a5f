#include "runtime/device/idle_ranges.hpp"

#include "runtime/core/error.hpp"
#include "runtime/device/device.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace troupe::runtime {
namespace {

constexpr std::size_t segment_step = std::size_t{2} << 20, most_ahead = std::size_t{512} << 20;

/// Nothing runs any more on a device that has failed.
bool has_passed(const std::shared_ptr<device_event>& x) noexcept {
  try {
    return x == nullptr || x->passed();
  } catch (...) {
    return true;
  }
}

/// Those that have passed are forgotten: ranges that are joined again and again would gather them.
void join(used_events& to, used_events from) {
  to.insert(to.end(), from.begin(), from.end());
  std::erase_if(to, has_passed);
}

}  // namespace

std::size_t segment_size(std::size_t bytes, std::size_t held) {
  const auto ahead = std::min(held / 8, most_ahead) / segment_step * segment_step;
  return std::max(bytes, ahead);
}

void idle_ranges::insert(const place& where, range x) {
  by_size_.emplace(x.bytes, where.first, where.second);
  idle_.emplace(where, std::move(x));
}

idle_ranges::range idle_ranges::remove(std::map<place, range>::iterator which) {
  by_size_.erase({which->second.bytes, which->first.first, which->first.second});
  auto out = std::move(which->second);
  idle_.erase(which);
  return out;
}

std::optional<idle_ranges::range> idle_ranges::take(std::size_t bytes) {
  const auto found = by_size_.lower_bound({bytes, 0, 0});
  if (found == by_size_.end())
    return std::nullopt;
  const place where{std::get<1>(*found), std::get<2>(*found)};
  auto out = remove(idle_.find(where));
  if (out.bytes > bytes)
    insert({where.first, where.second + bytes}, {out.at + bytes, out.bytes - bytes, out.used});
  out.bytes = bytes;
  return out;
}

void idle_ranges::add_segment(std::byte* at, std::size_t bytes) {
  segments_.emplace(at, segment{bytes, next_});
  held_ += bytes;
  insert({next_++, 0}, {at, bytes, {}});
}

void idle_ranges::give(range x) {
  auto in = segments_.upper_bound(x.at);
  ensure(in != segments_.begin(), "POOL-3: what comes back to a pool was taken from it");
  --in;
  place where{in->second.number, std::size_t(x.at - in->first)};
  ensure(where.second + x.bytes <= in->second.bytes,
         "POOL-3: what comes back to a pool was taken from it");
  const auto after = idle_.find({where.first, where.second + x.bytes});
  if (after != idle_.end()) {
    auto more = remove(after);
    x.bytes += more.bytes;
    join(x.used, std::move(more.used));
  }
  if (const auto next = idle_.lower_bound(where); next != idle_.begin()) {
    const auto before = std::prev(next);
    if (before->first.first == where.first
        && before->first.second + before->second.bytes == where.second) {
      where = before->first;
      auto more = remove(before);
      more.bytes += x.bytes;
      join(more.used, std::move(x.used));
      x = std::move(more);
    }
  }
  insert(where, std::move(x));
}

std::vector<idle_ranges::range> idle_ranges::take_whole_segments() {
  std::vector<range> out;
  for (auto s = segments_.begin(); s != segments_.end();) {
    const auto found = idle_.find({s->second.number, 0});
    if (found == idle_.end() || found->second.bytes != s->second.bytes) {
      ++s;
      continue;
    }
    out.push_back(remove(found));
    held_ -= s->second.bytes;
    s = segments_.erase(s);
  }
  return out;
}

}  // namespace troupe::runtime
