#include "runtime/inference/page_table.hpp"

#include "tests/support/broken.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <map>
#include <random>

using namespace troupe::runtime;
using ids = std::vector<std::int32_t>;

namespace {

ids counted_tokens(std::int64_t pages, std::int32_t first) {
  ids out;
  for (std::int32_t i = 0; i < std::int32_t(pages * page_rows); ++i)
    out.push_back(first + i);
  return out;
}

ids page_of(const ids& all, std::size_t page) {
  const auto begin = all.begin() + std::ptrdiff_t(page * page_rows);
  return {begin, begin + page_rows};
}

/// Fills pages with all tokens.
std::vector<std::int32_t> filled(page_table& in, const ids& all) {
  auto [pages, last] = in.share(all, 100);
  for (auto i = pages.size(); i < all.size() / page_rows; ++i) {
    pages.push_back(in.take());
    last = in.keep(pages.back(), last, page_of(all, i));
  }
  return pages;
}

void release_all(page_table& in, const std::vector<std::int32_t>& pages) {
  for (auto i = pages.size(); i-- > 0;)
    in.release(pages[i]);
}

}  // namespace

TEST_CASE("a text finds the pages of its longest known prefix, also after their release",
          "[inference]") {
  page_table pages(5);
  const auto text = counted_tokens(3, 0);
  const auto first = filled(pages, text);
  release_all(pages, first);
  CHECK(pages.free() == 5);
  auto other = text;
  other.back() = -1;
  const auto shared = pages.share(other, 3);
  CHECK(shared.pages == std::vector<std::int32_t>{first[0], first[1]});
  CHECK(pages.free() == 3);
  CHECK(pages.share(text, 1).pages == std::vector<std::int32_t>{first[0]});
  CHECK(pages.references(first[0]) == 2);
  // The second page's tokens at the beginning of a text are other content.
  CHECK(pages.share(page_of(text, 1), 1).pages.empty());
}

TEST_CASE("pages without content go first, then the end of the text that is unused for longest",
          "[inference]") {
  page_table pages(5);
  const auto a = filled(pages, counted_tokens(2, 0)), b = filled(pages, counted_tokens(2, 1000));
  release_all(pages, a);
  release_all(pages, b);
  CHECK(pages.take() == 4);
  CHECK(pages.take() == a[1]);
  CHECK(pages.take() == a[0]);
  CHECK(pages.share(counted_tokens(2, 0), 2).pages.empty());
  CHECK(pages.share(counted_tokens(2, 1000), 2).pages == b);
}

TEST_CASE("a forgotten page is not found, and equal content is kept once", "[inference]") {
  page_table pages(3);
  const auto text = counted_tokens(1, 7);
  const auto one = pages.take(), two = pages.take();
  const auto kept = pages.keep(one, 0, text);
  CHECK(pages.keep(two, 0, text) == kept);
  CHECK(pages.share(text, 1).pages == std::vector<std::int32_t>{one});
  pages.forget(one);
  CHECK(pages.share(text, 1).pages.empty());
}

TEST_CASE("PAGES-1, PAGES-2, PAGES-3: pages are taken, kept and given back in turn",
          "[inference]") {
  page_table pages(1);
  const auto text = counted_tokens(1, 7);
  CHECK_BREAKS("PAGES-3", pages.release(0));
  CHECK_BREAKS("PAGES-2", pages.keep(0, 0, text));
  const auto page = pages.take();
  CHECK_BREAKS("PAGES-1", pages.take());
  CHECK_BREAKS("PAGES-2", pages.keep(page, 0, {}));
  CHECK(pages.keep(page, 0, text) > 0);
  CHECK_BREAKS("PAGES-2", pages.keep(page, 0, text));
}

TEST_CASE("random operations lose no page and share only equal prefixes", "[inference]") {
  std::mt19937 random(5);
  page_table pages(24);
  struct held {
    ids tokens;
    std::vector<std::int32_t> pages;
  };
  std::vector<held> texts;
  std::map<std::int32_t, ids> content;  // all tokens up to the end of a page
  int hits = 0;
  for (int i = 0; i < 3000; ++i) {
    const auto wanted = std::int64_t(random() % 4) + 1;
    if (random() % 2 == 0 && pages.free() >= wanted) {
      ids tokens;  // of few kinds of pages, so that prefixes repeat
      for (std::int64_t p = 0; p < wanted; ++p) {
        const ids same(std::size_t(page_rows), std::int32_t(random() % 3));
        tokens.insert(tokens.end(), same.begin(), same.end());
      }
      auto found = pages.share(tokens, wanted);
      for (std::size_t p = 0; p < found.pages.size(); ++p)
        CHECK(content.at(found.pages[p])
              == ids(tokens.begin(), tokens.begin() + std::ptrdiff_t((p + 1) * page_rows)));
      hits += int(found.pages.size());
      held text{tokens, found.pages};
      for (auto p = found.pages.size(); p < std::size_t(wanted); ++p) {
        const auto page = pages.take();
        for (const auto& other : texts)
          CHECK(std::ranges::count(other.pages, page) == 0);
        found.last = pages.keep(page, found.last, page_of(tokens, p));
        content[page] = ids(tokens.begin(), tokens.begin() + std::ptrdiff_t((p + 1) * page_rows));
        text.pages.push_back(page);
      }
      texts.push_back(text);
    } else if (!texts.empty()) {
      const auto which = std::ptrdiff_t(random() % texts.size());
      release_all(pages, texts[std::size_t(which)].pages);
      texts.erase(texts.begin() + which);
    }
    std::map<std::int32_t, std::int64_t> references;
    for (const auto& text : texts)
      for (const auto page : text.pages)
        ++references[page];
    CHECK(pages.free() == pages.size() - std::int64_t(references.size()));
    for (const auto& [page, n] : references)
      CHECK(pages.references(page) == n);
  }
  CHECK(hits > 100);
}
