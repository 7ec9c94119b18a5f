#include "runtime/device/idle_ranges.hpp"

#include "runtime/core/error.hpp"
#include "runtime/device/device.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace troupe::runtime {
namespace {

constexpr std::size_t segment_step = std::size_t{2} << 20, most_ahead = std::size_t{512} << 20;

/// Null and failed devices count as passed: a failed device runs nothing any more.
bool has_passed(const std::shared_ptr<device_event>& x) noexcept {
  try {
    return x == nullptr || x->passed();
  } catch (...) {
    return true;
  }
}

}  // namespace

std::size_t segment_size(std::size_t bytes, std::size_t held) {
  const auto ahead = std::min(held / 8, most_ahead) / segment_step * segment_step;
  return std::max(bytes, ahead);
}

/// Drops passed events: otherwise ranges that merge repeatedly would accumulate them.
void idle_ranges::join(std::vector<used_part>& to, std::vector<used_part> from) {
  to.insert(to.end(), std::move_iterator(from.begin()), std::move_iterator(from.end()));
  std::erase_if(to, [](auto& part) {
    std::erase_if(part.by, has_passed);
    return part.by.empty();
  });
}

void idle_ranges::insert(const place& where, idle_range x) {
  by_size_.emplace(x.bytes, where.first, where.second);
  idle_.emplace(where, std::move(x));
}

idle_ranges::idle_range idle_ranges::remove(std::map<place, idle_range>::iterator which) {
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
  const auto from = remove(idle_.find(where));
  range out{from.at, bytes};
  auto* const end = from.at + bytes;
  idle_range rest{end, from.bytes - bytes};
  for (const auto& part : from.used) {
    if (part.begin < end)
      out.used.insert(out.used.end(), part.by.begin(), part.by.end());
    if (part.end > end)
      rest.used.push_back({std::max(part.begin, end), part.end, part.by});
  }
  if (rest.bytes > 0)
    insert({where.first, where.second + bytes}, std::move(rest));
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
  idle_range back{x.at, x.bytes};
  if (!x.used.empty())
    back.used.push_back({x.at, x.at + x.bytes, std::move(x.used)});
  const auto after = idle_.find({where.first, where.second + back.bytes});
  if (after != idle_.end()) {
    auto more = remove(after);
    back.bytes += more.bytes;
    join(back.used, std::move(more.used));
  }
  if (const auto next = idle_.lower_bound(where); next != idle_.begin()) {
    const auto before = std::prev(next);
    if (before->first.first == where.first
        && before->first.second + before->second.bytes == where.second) {
      where = before->first;
      auto more = remove(before);
      more.bytes += back.bytes;
      join(more.used, std::move(back.used));
      back = std::move(more);
    }
  }
  insert(where, std::move(back));
}

std::vector<idle_ranges::range> idle_ranges::take_whole_segments() {
  std::vector<range> out;
  for (auto s = segments_.begin(); s != segments_.end();) {
    const auto found = idle_.find({s->second.number, 0});
    if (found == idle_.end() || found->second.bytes != s->second.bytes) {
      ++s;
      continue;
    }
    auto whole = remove(found);
    auto& given = out.emplace_back(range{whole.at, whole.bytes});
    for (auto& part : whole.used)
      given.used.insert(given.used.end(), part.by.begin(), part.by.end());
    held_ -= s->second.bytes;
    s = segments_.erase(s);
  }
  return out;
}

}  // namespace troupe::runtime
