#include "runtime/inference/serving_schedule.hpp"

#include "runtime/inference/page_table.hpp"

#include <catch2/catch_test_macros.hpp>

#include <deque>
#include <random>

using namespace troupe::runtime;
using texts_in_service = std::vector<text_in_service>;
using rows_of_texts = std::vector<served_rows>;

TEST_CASE("decodes come before chunks of prompts, which come before new texts", "[inference]") {
  const texts_in_service running = {{200, 64, 1, 1}, {11, 10, 1, 1}, {70, 69, 2, 2}};
  const texts_in_service waiting = {{500, 0, 0, 0}};
  auto batch = serving_schedule(running, waiting, 100, {.rows = 100, .running = 8});
  CHECK(batch.running == rows_of_texts{{0, 98}, {1, 1}, {2, 1}});
  CHECK(batch.admitted.empty());
  batch = serving_schedule(running, waiting, 100, {.rows = 150, .running = 8});
  CHECK(batch.running == rows_of_texts{{0, 136}, {1, 1}, {2, 1}});
  CHECK(batch.admitted == rows_of_texts{{0, 12}});
  CHECK(serving_schedule(running, waiting, 100, {.rows = 150, .running = 3}).admitted.empty());
  CHECK(serving_schedule(running, waiting, 9, {.rows = 150, .running = 8}).admitted.empty());
}

TEST_CASE("without a free page the newest running text is preempted", "[inference]") {
  const texts_in_service running = {{65, 64, 1, 1}, {129, 128, 2, 2}, {10, 9, 1, 1}};
  const auto batch = serving_schedule(running, {}, 0, {.rows = 10, .running = 4});
  CHECK(batch.preempted == std::vector<std::size_t>{2, 1});
  CHECK(batch.running == rows_of_texts{{0, 1}});
}

TEST_CASE("random texts all end, whatever the pages and the rows of a batch", "[inference]") {
  struct simulated {
    text_in_service now;
    std::int64_t last;  ///< tokens at its end
  };
  for (unsigned seed = 1; seed <= 40; ++seed) {
    std::mt19937 random(seed);
    const std::int64_t all = 4 + std::int64_t(random() % 12);
    const serving_limits limits{.rows = 9 + std::int64_t(random() % 90),
                                .running = 1 + std::int64_t(random() % 8)};
    std::deque<simulated> running, waiting;
    for (int i = 0; i < 30; ++i) {
      const auto prompt = 1 + std::int64_t(random() % 150);
      const auto last = prompt + std::int64_t(random() % 100);
      waiting.push_back({{.tokens = prompt}, last});
      REQUIRE(pages_of(last) <= 4);
    }
    std::int64_t free = all;
    int steps = 0, preempted = 0;
    while (!running.empty() || !waiting.empty()) {
      REQUIRE(++steps < 20000);
      texts_in_service now, next;
      for (const auto& x : running)
        now.push_back(x.now);
      for (const auto& x : waiting)
        next.push_back(x.now);
      const auto batch = serving_schedule(now, next, free, limits);
      REQUIRE(batch.running.size() + batch.admitted.size() > 0);
      std::int64_t rows = 0;
      const auto compute = [&](simulated& x, std::int64_t n) {
        REQUIRE(n >= 1);
        REQUIRE(x.now.computed + n <= x.now.tokens);
        rows += n;
        x.now.computed += n;
        const auto more = pages_of(x.now.computed) - x.now.pages;
        free -= more;
        x.now.pages = x.now.own_pages = x.now.pages + more;
      };
      for (const auto which : batch.preempted) {
        REQUIRE(which + 1 == running.size());  // the newest
        auto x = running.back();
        running.pop_back();
        free += x.now.pages;
        x.now = {.tokens = x.now.tokens};
        waiting.push_front(x);
        ++preempted;
      }
      REQUIRE((batch.preempted.empty() || batch.admitted.empty()));
      for (const auto& x : batch.running)
        compute(running.at(x.text), x.rows);
      for (const auto& x : batch.admitted) {
        running.push_back(waiting.front());
        waiting.pop_front();
        compute(running.back(), x.rows);
      }
      REQUIRE(free >= 0);
      REQUIRE(rows <= limits.rows);
      REQUIRE(std::int64_t(running.size()) <= limits.running);
      for (auto& x : running)
        if (x.now.computed == x.now.tokens)
          ++x.now.tokens;  // a new one
      std::erase_if(running, [&](const simulated& x) {
        if (x.now.tokens > x.last)
          free += x.now.pages;
        return x.now.tokens > x.last;
      });
    }
    CHECK(free == all);
  }
}
