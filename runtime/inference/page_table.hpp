// The pages of a cache of keys and values: reference counts, and reuse of pages with known content.
//
// A page has 64 rows. A full page may be kept with its content: the tokens of its rows and the
// content before it. `share` finds pages by that chain, compares their tokens and so is exact. A
// released page stays findable until `take` needs it; the longest unused one goes first.
//
// Data only: the memory of the pages belongs to the engine. One thread.

#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <span>
#include <utility>
#include <vector>

namespace troupe::runtime {

constexpr std::int64_t page_rows = 64;

constexpr std::int64_t pages_of(std::int64_t rows) {
  return (rows + page_rows - 1) / page_rows;
}

class page_table {
 public:
  /// Number of a content, never reused. 0: no rows.
  using content = std::uint64_t;

  explicit page_table(std::int64_t pages);

  /// Takes a reference to each page of the longest known prefix, of at most `most` whole pages.
  /// `last`: the content of the last one, or 0.
  struct prefix {
    std::vector<std::int32_t> pages;
    content last = 0;
  };
  prefix share(std::span<const std::int32_t> tokens, std::int64_t most);

  /// A page with one reference and without content. At least one must be free (PAGES-1).
  std::int32_t take();

  /// Keeps the content of a full page with one reference: `tokens` (page_rows) after `before`. If
  /// another page has it already, the page stays without content. Returns the content. Otherwise
  /// breaks PAGES-2.
  content keep(std::int32_t page, content before, std::span<const std::int32_t> tokens);

  /// Gives a reference back. Give back the last page of a text first: it is reused first.
  /// Breaks PAGES-3 without one.
  void release(std::int32_t page);

  /// The page is no longer found, such as after a failure. Its references stay.
  void forget(std::int32_t page);

  std::int64_t size() const { return std::int64_t(pages_.size()); }
  std::int64_t free() const { return std::int64_t(unused_.size()); }
  std::int64_t references(std::int32_t page) const { return at(page).references; }

 private:
  /// The content before and a hash of the tokens.
  using key = std::pair<content, std::uint64_t>;
  struct one {
    std::int64_t references = 0;
    content id = 0;  ///< 0: without content
    key place = {};
    std::vector<std::int32_t> tokens = {};
    std::list<std::int32_t>::iterator unused = {};  ///< only without references
  };

  static key key_of(content before, std::span<const std::int32_t> tokens);
  const one& at(std::int32_t page) const { return pages_.at(std::size_t(page)); }
  one& at(std::int32_t page) { return pages_.at(std::size_t(page)); }
  /// -1: none
  std::int32_t found(const key& place, std::span<const std::int32_t> tokens) const;

  std::vector<one> pages_;
  std::list<std::int32_t> unused_;  ///< the next to be taken first
  std::map<key, std::int32_t> known_;
  content next_ = 1;
};

}  // namespace troupe::runtime
