#include "runtime/telemetry/record_ring.hpp"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <exception>
#include <fmt/format.h>
#include <utility>

namespace troupe::runtime {

struct record_ring::entry {
  std::uint64_t number = 0;
  std::string_view kind;
  std::optional<std::chrono::system_clock::time_point> at;
  bool is_keyed = false;
  std::size_t bytes = 0;
  std::once_flag made;
  maker make;
  std::string text;

  const std::string& read() {
    std::call_once(made, [this] {
      std::string body;
      try {
        body = make();
      } catch (const std::exception&) {  // one bad record must not fail the whole answer
        body = R"({"unreadable":true})";
      }
      make = {};
      text = fmt::format("{{\"kind\":\"{}\"", kind);
      if (at)
        text += fmt::format(",\"at\":{:.3f}",
                            std::chrono::duration<double>(at->time_since_epoch()).count());
      // The body "{}" has no fields, so it needs no comma.
      text += body.size() > 2 ? "," + body.substr(1) : "}";
    });
    return text;
  }
};

std::string text_of(const viewer_position& x) {
  return std::to_string(x.epoch) + ":" + std::to_string(x.next);
}

std::optional<viewer_position> read_viewer_position(std::string_view text) {
  viewer_position out;
  const auto* const end = text.data() + text.size();
  const auto epoch = std::from_chars(text.data(), end, out.epoch);
  if (epoch.ec != std::errc() || epoch.ptr == end || *epoch.ptr != ':')
    return {};
  const auto next = std::from_chars(epoch.ptr + 1, end, out.next);
  if (next.ec != std::errc() || next.ptr != end)
    return {};
  return out;
}

record_ring::record_ring(std::uint32_t epoch, const ring_capacities& most)
    : epoch_(epoch),
      keys_(most.keys),
      facts_{std::max<std::size_t>(most.facts, 1), most.fact_bytes},
      samples_{std::max<std::size_t>(most.samples, 1), most.sample_bytes} {}

void record_ring::add(std::string_view kind, maker text, std::size_t bytes) {
  add(facts_, {.kind = kind, .bytes = bytes}, std::move(text));
}

void record_ring::add_past(std::string_view kind, maker text) {
  add(facts_, {.kind = kind, .past = true}, std::move(text));
}

void record_ring::add_newest(std::string_view kind, const std::string& key, maker text) {
  add(facts_, {.kind = kind, .key = &key}, std::move(text));
}

void record_ring::add_sample(std::string_view kind,
                             const std::string& key,
                             std::size_t bytes,
                             maker text) {
  add(samples_, {.kind = kind, .key = &key, .bytes = bytes}, std::move(text));
}

void record_ring::add(queue& to, const label& of, maker text) {
  auto made = std::make_shared<entry>();
  made->kind = of.kind;
  if (!of.past)
    made->at = std::chrono::system_clock::now();
  made->is_keyed = of.key != nullptr;
  made->bytes = of.bytes;
  made->make = std::move(text);
  std::vector<pointer> released;  // destroyed after the lock is released
  {
    const std::lock_guard lock(mutex_);
    made->number = next_++;
    if (of.key != nullptr) {
      auto found = newest_.find({of.kind, *of.key});
      if (found == newest_.end() && newest_.size() < keys_)
        found = newest_.try_emplace({of.kind, *of.key}).first;
      if (found != newest_.end())
        released.push_back(std::exchange(found->second, made));
    }
    to.entries.push_back(std::move(made));
    to.bytes += of.bytes;
    while (to.entries.size() > to.capacity || (to.bytes > to.most_bytes && to.entries.size() > 1)) {
      to.bytes -= to.entries.front()->bytes;
      released.push_back(std::move(to.entries.front()));
      to.entries.pop_front();
    }
  }
}

record_ring::record record_ring::read(const pointer& x) {
  return {x->number, x->kind, x->read()};
}

record_ring::pulled record_ring::since(viewer_position from,
                                       std::size_t most,
                                       std::size_t bytes,
                                       const std::vector<std::string>& kinds) const {
  pulled out;
  std::vector<pointer> found;
  std::uint64_t end = 0;
  {
    const std::lock_guard lock(mutex_);
    end = next_;
    out.other_epoch = from.epoch != epoch_;
    if (out.other_epoch || from.next > next_)
      from.next = oldest();
    const auto first_of = [&from](const queue& x) {
      return std::ranges::lower_bound(
          x.entries, from.next, {}, [](const pointer& one) { return one->number; });
    };
    auto fact = first_of(facts_), sample = first_of(samples_);
    const auto no_fact = facts_.entries.end(), no_sample = samples_.entries.end();
    // Copies at most `most` pointers, however rare the requested kinds are.
    while (found.size() < most && (fact != no_fact || sample != no_sample)) {
      const bool takes_fact
          = sample == no_sample || (fact != no_fact && (*fact)->number < (*sample)->number);
      found.push_back(takes_fact ? *fact++ : *sample++);
    }
  }
  bool has_all = found.size() < most;
  std::size_t length = 0;
  auto at = from.next;  // after the newest examined record
  for (const auto& one : found) {
    const bool is_wanted = kinds.empty() || std::ranges::find(kinds, one->kind) != kinds.end();
    if (is_wanted) {
      length += one->read().size();
      if (!out.records.empty() && length > bytes) {
        has_all = false;
        break;
      }
    }
    out.dropped += one->number - at;
    at = one->number + 1;
    if (is_wanted) {
      out.records.push_back(read(one));
      out.records.back().dropped = std::exchange(out.dropped, 0);
    }
  }
  if (has_all)
    out.dropped += end - std::exchange(at, end);
  out.next = {epoch_, at};
  return out;
}

std::uint64_t record_ring::pulled::all_dropped() const {
  auto out = dropped;
  for (const auto& x : records)
    out += x.dropped;
  return out;
}

std::uint64_t record_ring::oldest() const {
  auto out = next_;
  for (const auto* queue : {&facts_, &samples_})
    if (!queue->entries.empty())
      out = std::min(out, queue->entries.front()->number);
  return out;
}

// The lock covers only copies of pointers, so `add` never waits for the making of texts.
record_ring::pulled record_ring::beginning(std::size_t steps,
                                           std::size_t others,
                                           std::size_t bytes) const {
  pulled out;
  std::vector<pointer> keyed, chosen, all_steps, all_others;
  {
    const std::lock_guard lock(mutex_);
    out.next = {epoch_, next_};
    all_steps.reserve(facts_.entries.size());
    keyed.reserve(newest_.size());
    for (const auto& one : facts_.entries)
      if (one->kind == "step")
        all_steps.push_back(one);
      else if (!one->is_keyed)
        all_others.push_back(one);
    for (const auto& [key, one] : newest_)
      keyed.push_back(one);
  }
  const auto count = std::min(std::max<std::size_t>(steps, 1), all_steps.size());
  for (std::size_t i = 1; i <= count; ++i)
    chosen.push_back(all_steps[i * all_steps.size() / count - 1]);
  const auto left_out = all_others.size() - std::min(others, all_others.size());
  chosen.insert(chosen.end(), all_others.begin() + std::ptrdiff_t(left_out), all_others.end());
  read_newest(std::move(keyed), bytes, out);
  read_newest(std::move(chosen), bytes, out);
  std::ranges::sort(out.records, {}, &record::number);
  return out;
}

record_ring::pulled record_ring::newest() const {
  pulled out;
  std::vector<pointer> chosen;
  {
    const std::lock_guard lock(mutex_);
    out.next = {epoch_, next_};
    chosen.reserve(newest_.size());
    for (const auto& [key, one] : newest_)
      chosen.push_back(one);
  }
  auto bytes = std::size_t(-1);
  read_newest(std::move(chosen), bytes, out);
  std::ranges::reverse(out.records);
  return out;
}

void record_ring::read_newest(std::vector<pointer> from, std::size_t& bytes, pulled& to) {
  std::ranges::sort(from, std::ranges::greater(), [](const pointer& x) { return x->number; });
  for (auto one = from.begin(); one != from.end(); ++one) {
    const auto size = (*one)->read().size();
    if (size > bytes) {
      to.dropped += std::size_t(from.end() - one);
      return;
    }
    bytes -= size;
    to.records.push_back(read(*one));
  }
}

viewer_position record_ring::end() const {
  const std::lock_guard lock(mutex_);
  return {epoch_, next_};
}

viewer_position record_ring::before_end(std::uint64_t newest) const {
  const std::lock_guard lock(mutex_);
  return {epoch_, next_ - std::min(newest, next_ - oldest())};
}

}  // namespace troupe::runtime
