#include "kernels/cuda/candidate_choice.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace troupe::kernels::cuda {

namespace {

constexpr double too_slow = 2;  ///< factor on first times, far above noise
constexpr double alike = 1.02;
// Events are accurate to 0.5 us: negligible in a total of 300 us, but 10 % of a single 5 us run.
constexpr double enough_microseconds = 300;
constexpr double fewest_rounds = 5, most_rounds = 20;

constexpr double refused = std::numeric_limits<double>::infinity();

double median(std::vector<double> of) {
  const auto middle = of.begin() + std::ptrdiff_t(of.size() / 2);
  std::nth_element(of.begin(), middle, of.end());
  return *middle;
}

class contest {
 public:
  contest(std::size_t candidates, const std::function<double(std::size_t)>& time, double budget)
      : time_(time), left_(budget), times_(candidates), ran_(candidates), out_(candidates) {}

  void load() {
    for (std::size_t c = 0; c < times_.size(); ++c) {
      run(c);
      if (left_ <= 0 && ran_[c])
        return;  // no budget: one candidate that runs is enough
    }
  }

  void first_round() {
    take_turns();
    std::vector<double> first;
    for (const auto& own : times_)
      if (!own.empty())
        first.push_back(own.front());
    if (first.empty())
      return;
    // Compared with the second fastest: a single outlier that is too short drops no candidate.
    std::sort(first.begin(), first.end());
    const double fast = first[std::min<std::size_t>(1, first.size() - 1)];
    for (std::size_t c = 0; c < times_.size(); ++c)
      out_[c] = out_[c] || times_[c].empty() || times_[c].front() > too_slow * fast;
    rounds_ = std::clamp(enough_microseconds / std::max(fast, 1.0), fewest_rounds, most_rounds);
  }

  void other_rounds() {
    for (int round = 1; round < int(rounds_); ++round)
      take_turns();
  }

  std::optional<fastest_candidate> winner() const {
    std::vector<double> medians(times_.size(), refused);
    for (std::size_t c = 0; c < times_.size(); ++c)
      if (!out_[c] && !times_[c].empty())
        medians[c] = median(times_[c]);
    const double fastest = *std::min_element(medians.begin(), medians.end());
    if (!std::isfinite(fastest)) {
      const auto first = std::find(ran_.begin(), ran_.end(), true);
      if (first == ran_.end())
        return std::nullopt;
      return fastest_candidate{std::size_t(first - ran_.begin())};
    }
    const auto chosen = std::find_if(
        medians.begin(), medians.end(), [&](double t) { return t <= alike * fastest; });
    return fastest_candidate{std::size_t(chosen - medians.begin()), *chosen};
  }

 private:
  double run(std::size_t c) {
    const double took = time_(c);
    ran_[c] = std::isfinite(took);
    if (!ran_[c]) {
      out_[c] = true;
      times_[c].clear();
    }
    return took;
  }

  void take_turns() {
    for (std::size_t c = 0; c < times_.size() && left_ > 0; ++c)
      if (!out_[c])
        if (const double took = run(c); std::isfinite(took)) {
          times_[c].push_back(took);
          left_ -= took;
        }
  }

  const std::function<double(std::size_t)>& time_;
  double left_, rounds_ = 0;
  std::vector<std::vector<double>> times_;  ///< counted times of each candidate
  std::vector<bool> ran_;                   ///< its last run succeeded
  std::vector<bool> out_;                   ///< refused or too slow
};

}  // namespace

std::optional<fastest_candidate> fastest_of(std::size_t candidates,
                                            const std::function<double(std::size_t)>& time,
                                            double budget) {
  if (candidates == 0)
    return std::nullopt;
  contest all(candidates, time, budget);
  all.load();
  all.first_round();
  all.other_rounds();
  return all.winner();
}

}  // namespace troupe::kernels::cuda
