#include "runtime/inference/serving_schedule.hpp"

#include "runtime/inference/page_table.hpp"

#include <algorithm>

namespace troupe::runtime {
namespace {

/// Pages that a text still needs for so many of its next rows.
std::int64_t missing_pages(const text_in_service& x, std::int64_t rows) {
  return std::max<std::int64_t>(0, pages_of(x.computed + rows) - x.pages);
}

std::int64_t missing_rows(const text_in_service& x) {
  return x.tokens - x.computed;
}

}  // namespace

serving_batch serving_schedule(std::span<const text_in_service> running,
                               std::span<const text_in_service> waiting,
                               std::int64_t free_pages,
                               const serving_limits& limits) {
  serving_batch out;
  std::vector<std::int64_t> given(running.size(), 0);
  auto budget = limits.rows;
  auto end = running.size();  // texts from here on are preempted
  const auto give = [&](std::size_t i) {
    const auto& x = running[i];
    const auto wanted = std::min(budget, missing_rows(x));
    if (wanted == 0)
      return;
    const auto fits = [&] { return (x.pages + free_pages) * page_rows - x.computed; };
    while (fits() <= 0 && i < end) {
      --end;
      out.preempted.push_back(end);
      budget += given[end];
      free_pages += running[end].own_pages
                    + (given[end] > 0 ? missing_pages(running[end], given[end]) : 0);
      given[end] = 0;
    }
    if (i >= end)
      return;
    given[i] = std::min(wanted, fits());
    free_pages -= missing_pages(x, given[i]);
    budget -= given[i];
  };
  for (const bool decodes : {true, false})
    for (std::size_t i = 0; i < end; ++i)
      if ((missing_rows(running[i]) == 1) == decodes)
        give(i);
  for (std::size_t i = 0; i < end; ++i) {
    if (given[i] > 0)
      out.running.push_back({i, given[i]});
    // Pages of later chunks are not for new texts.
    free_pages -= missing_pages(running[i], missing_rows(running[i]))
                  - missing_pages(running[i], given[i]);
  }
  if (!out.preempted.empty())
    return out;
  const auto places = limits.running - std::int64_t(running.size());
  for (std::size_t i = 0; i < waiting.size() && std::int64_t(i) < places && budget > 0; ++i) {
    const auto needed = pages_of(waiting[i].tokens);
    if (needed > free_pages)
      break;  // a later text must not overtake it for ever
    free_pages -= needed;
    const auto rows = std::min(budget, missing_rows(waiting[i]));
    budget -= rows;
    out.admitted.push_back({i, rows});
  }
  return out;
}

}  // namespace troupe::runtime
