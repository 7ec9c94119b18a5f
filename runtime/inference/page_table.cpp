#include "runtime/inference/page_table.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/hash.hpp"

#include <algorithm>

namespace troupe::runtime {

page_table::page_table(std::int64_t pages) : pages_(std::size_t(pages)) {
  for (std::int32_t page = 0; page < std::int32_t(pages); ++page)
    at(page).unused = unused_.insert(unused_.end(), page);
}

page_table::key page_table::key_of(content before, std::span<const std::int32_t> tokens) {
  return {before, hash64(tokens.data(), tokens.size_bytes())};
}

std::int32_t page_table::found(const key& place, std::span<const std::int32_t> tokens) const {
  const auto here = known_.find(place);
  return here != known_.end() && std::ranges::equal(at(here->second).tokens, tokens) ? here->second
                                                                                     : -1;
}

page_table::prefix page_table::share(std::span<const std::int32_t> tokens, std::int64_t most) {
  prefix out;
  const auto whole = std::min(most, std::int64_t(tokens.size()) / page_rows);
  for (std::int64_t i = 0; i < whole; ++i) {
    const auto own = tokens.subspan(std::size_t(i * page_rows), std::size_t(page_rows));
    const auto page = found(key_of(out.last, own), own);
    if (page < 0)
      break;
    auto& x = at(page);
    if (x.references++ == 0)
      unused_.erase(x.unused);
    out.pages.push_back(page);
    out.last = x.id;
  }
  return out;
}

std::int32_t page_table::take() {
  ensure(!unused_.empty(), "PAGES-1: a page is taken only while one is free");
  const auto page = unused_.front();
  unused_.pop_front();
  forget(page);
  at(page).references = 1;
  return page;
}

page_table::content page_table::keep(std::int32_t page,
                                     content before,
                                     std::span<const std::int32_t> tokens) {
  auto& x = at(page);
  ensure(x.references == 1 && x.id == 0 && std::int64_t(tokens.size()) == page_rows,
         "PAGES-2: content is kept once, of a full page with one reference");
  const auto place = key_of(before, tokens);
  if (const auto other = found(place, tokens); other >= 0)
    return at(other).id;
  x.id = next_++;
  if (!known_.emplace(place, page).second)  // other tokens with the same hash
    return x.id;
  x.place = place;
  x.tokens.assign(tokens.begin(), tokens.end());
  return x.id;
}

void page_table::release(std::int32_t page) {
  auto& x = at(page);
  ensure(x.references > 0, "PAGES-3: a page is given back as often as it was taken or shared");
  if (--x.references > 0)
    return;
  // Pages without content are taken before any content is lost.
  x.unused = unused_.insert(x.tokens.empty() ? unused_.begin() : unused_.end(), page);
}

void page_table::forget(std::int32_t page) {
  auto& x = at(page);
  if (!x.tokens.empty())
    known_.erase(x.place);
  x.tokens.clear();
  x.id = 0;
}

}  // namespace troupe::runtime
