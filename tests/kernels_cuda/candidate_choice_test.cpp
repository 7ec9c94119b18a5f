// Tests of the choice of the fastest candidate, with made-up times.

#include "kernels/cuda/candidate_choice.hpp"

#include <catch2/catch_test_macros.hpp>

#include <limits>
#include <numeric>
#include <vector>

using troupe::kernels::cuda::fastest_candidate;
using troupe::kernels::cuda::fastest_of;

namespace {

constexpr double none = std::numeric_limits<double>::infinity();
constexpr double plenty = 1e9;

/// Candidates with constant times, except for one run of one candidate.
struct made_up {
  std::vector<double> usual;
  std::size_t odd = 99;
  int odd_run = 0;  ///< 0: the first run, which does not count
  double odd_time = 0;
  std::vector<int> runs = std::vector<int>(usual.size());

  std::optional<fastest_candidate> fastest(double budget = plenty) {
    return fastest_of(
        usual.size(),
        [this](std::size_t c) { return runs[c]++ == odd_run && c == odd ? odd_time : usual[c]; },
        budget);
  }
  int all_runs() const { return std::accumulate(runs.begin(), runs.end(), 0); }
};

}  // namespace

TEST_CASE("the fastest candidate is chosen and reported with its time", "[products]") {
  made_up one{{500, 400, 450}};
  const auto chosen = one.fastest();
  REQUIRE(chosen);
  CHECK(chosen->which == 1);
  CHECK(chosen->microseconds == 400);
  CHECK(one.runs == std::vector<int>{6, 6, 6});
}

TEST_CASE("among equally fast candidates the library's first is chosen", "[products]") {
  CHECK(made_up{{507, 500, 500}}.fastest()->which == 0);
  CHECK(made_up{{515, 500, 500}}.fastest()->which == 1);
}

TEST_CASE("a single outlier changes no choice", "[products]") {
  for (int run = 1; run < 6; ++run) {
    CHECK(made_up{{500, 400, 450}, 0, run, 10}.fastest()->which == 1);
    if (run > 1)  // the first counted run excludes slow candidates
      CHECK(made_up{{500, 400, 450}, 1, run, 5000}.fastest()->which == 1);
  }
}

TEST_CASE("the first run of a candidate loads it and does not count", "[products]") {
  CHECK(made_up{{500, 400, 450}, 1, 0, 90000}.fastest()->which == 1);
  CHECK(made_up{{500, 400, 450}, 0, 0, 1}.fastest()->which == 1);
}

TEST_CASE("much slower candidates are not repeated, short ones are repeated more often",
          "[products]") {
  made_up far{{950, 400, 450}};
  CHECK(far.fastest()->which == 1);
  CHECK(far.runs == std::vector<int>{2, 6, 6});
  made_up small{{31, 30, 80}};
  CHECK(small.fastest()->which == 1);
  CHECK(small.runs == std::vector<int>{10, 10, 2});
  made_up tiny{{2, 3}};
  CHECK(tiny.fastest()->which == 0);
  CHECK(tiny.runs == std::vector<int>{21, 21});
}

TEST_CASE("a candidate that is refused in any run is never chosen", "[products]") {
  for (int run = 0; run < 6; ++run) {
    made_up one{{500, 400, 450}, 1, run, none};
    CHECK(one.fastest()->which == 2);
    CHECK(one.runs[1] == run + 1);
  }
  CHECK(!made_up{{none, none}}.fastest());
  CHECK(!made_up{{}}.fastest());
}

TEST_CASE("measuring ends with its budget and uses the times known by then", "[products]") {
  made_up nothing{{none, 700, 400}};
  CHECK(nothing.fastest(0)->which == 1);
  CHECK(nothing.fastest(0)->microseconds == 0);
  CHECK(nothing.runs[2] == 0);
  made_up loads{{500, 400, 450}};  // loads all, times one
  CHECK(loads.fastest(450)->which == 0);
  CHECK(loads.all_runs() == 4);
  made_up many{std::vector<double>(32, 2300)};
  CHECK(many.fastest(250'000)->which == 0);
  CHECK((many.all_runs() - 32) * 2300 <= 250'000 + 2300);
}

TEST_CASE("the same times choose the same candidate", "[products]") {
  const made_up one{{501, 400, 404, 399, 640}, 3, 2, 420};
  auto first = one, second = one;
  CHECK(first.fastest()->which == second.fastest()->which);
  CHECK(first.runs == second.runs);
}
