#include "runtime/telemetry/record_ring.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

namespace troupe::runtime {

struct record_ring::entry {
  std::string_view kind;
  std::once_flag made;
  std::function<std::string()> make;
  std::string text;

  const std::string& read() {
    std::call_once(made, [this] {
      text = make();
      make = {};
    });
    return text;
  }
};

std::string text_of(const record_position& x) {
  return std::to_string(x.epoch) + ":" + std::to_string(x.next);
}

std::optional<record_position> read_record_position(std::string_view text) {
  record_position out;
  const auto* const end = text.data() + text.size();
  const auto epoch = std::from_chars(text.data(), end, out.epoch);
  if (epoch.ec != std::errc() || epoch.ptr == end || *epoch.ptr != ':')
    return {};
  const auto next = std::from_chars(epoch.ptr + 1, end, out.next);
  if (next.ec != std::errc() || next.ptr != end)
    return {};
  return out;
}

record_ring::record_ring(std::uint32_t epoch, std::size_t capacity)
    : epoch_(epoch), capacity_(std::max<std::size_t>(capacity, 1)) {}

void record_ring::add(std::string_view kind, std::function<std::string()> text) {
  auto made = std::make_shared<entry>();
  made->kind = kind;
  made->make = std::move(text);
  std::shared_ptr<entry> dropped;  // destroyed after the lock is released
  {
    const std::lock_guard lock(mutex_);
    entries_.push_back(std::move(made));
    ++next_;
    if (entries_.size() > capacity_) {
      dropped = std::move(entries_.front());
      entries_.pop_front();
    }
  }
}

record_ring::pulled record_ring::since(record_position from,
                                       std::size_t most,
                                       std::size_t bytes,
                                       const std::vector<std::string>& kinds) const {
  pulled out;
  std::vector<std::shared_ptr<entry>> found;
  std::uint64_t first = 0;
  {
    const std::lock_guard lock(mutex_);
    const auto oldest = next_ - entries_.size();
    out.other_epoch = from.epoch != epoch_;
    if (out.other_epoch || from.next > next_)
      from = {epoch_, oldest};
    first = std::max(from.next, oldest);
    out.dropped = first - from.next;
    // A viewer of rare kinds reads past many records, but copies a bounded number of pointers.
    for (auto i = std::size_t(first - oldest); i < entries_.size() && found.size() < most; ++i)
      found.push_back(entries_[i]);
  }
  out.next = {epoch_, first};
  std::size_t length = 0;
  for (const auto& one : found) {
    const bool is_wanted = kinds.empty() || std::ranges::find(kinds, one->kind) != kinds.end();
    if (is_wanted) {
      const auto& text = one->read();
      if (length > 0 && length + text.size() > bytes)
        break;
      length += text.size();
      out.records.push_back({out.next.next, one->kind, text});
    }
    ++out.next.next;
  }
  return out;
}

record_position record_ring::end() const {
  const std::lock_guard lock(mutex_);
  return {epoch_, next_};
}

record_position record_ring::before_end(std::size_t newest) const {
  const std::lock_guard lock(mutex_);
  return {epoch_, next_ - std::min<std::uint64_t>(newest, entries_.size())};
}

}  // namespace troupe::runtime
