#include "runtime/watch/metrics_source.hpp"

#include <algorithm>
#include <utility>

namespace troupe::runtime {
namespace {

constexpr std::size_t most_parts = 16, part_records = 1000, part_bytes = 256 << 10;
constexpr int most_rounds = 4;  ///< of one page; all records of a full ring need two

}  // namespace

metrics_source::metrics_source(std::shared_ptr<const record_ring> records, const std::string& run)
    : records_(std::move(records)), position_{records_->end().epoch, 0} {
  view_.take_run(run);
}

bool metrics_source::catch_up() {
  for (std::size_t i = 0; i < most_parts; ++i)
    if (take_part())
      return true;
  return false;
}

bool metrics_source::take_part() {
  const auto found = records_->since(position_, part_records, part_bytes);
  for (const auto& one : found.records)
    view_.take(one.text);
  const auto dropped = found.all_dropped();
  if (dropped > 0)
    take_missed_states(found);
  view_.dropped += dropped;
  const bool has_all = found.next == position_ || found.next == records_->end();
  position_ = found.next;
  return has_all;
}

void metrics_source::take_missed_states(const record_ring::pulled& found) {
  const auto number_of = [](const record_ring::record& x) { return x.number; };
  for (const auto& one : records_->newest().records)
    if (one.number >= position_.next && one.number < found.next.next
        && !std::ranges::binary_search(found.records, one.number, {}, number_of))
      view_.take(one.text);
}

std::string metrics_source::text(std::optional<std::size_t> viewers) {
  // The first page may come late in a run: it must show the newest step.
  for (int i = 0; i < most_rounds && !catch_up(); ++i) {
  }
  return metrics_text(view_, {.viewers = viewers});
}

}  // namespace troupe::runtime
