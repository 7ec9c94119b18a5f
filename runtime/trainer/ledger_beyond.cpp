#include "runtime/trainer/ledger_beyond.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <variant>

namespace troupe::runtime {
namespace {

/// COLD-2: walks through the records once, in order.
class beyond_reader {
 public:
  explicit beyond_reader(const training_position& start) : start_(start) {
    out_.newest = start.iteration;
  }

  ledger_beyond take() {
    // A position is written down before its step is.
    std::erase_if(out_.stored, [this](std::uint64_t x) { return x > out_.newest; });
    if (!out_.stored.empty() && out_.complaint.empty() && !has_start_)
      out_.complaint = fmt::format("it does not know iteration {}", start_.iteration);
    out_.records.insert(out_.records.begin(), ledger::begun{start_});
    if (out_.of)
      out_.records.insert(out_.records.begin() + 1, *out_.of);
    out_.records.emplace_back(ledger::succeeded{1});
    return std::move(out_);
  }

  void operator()(const ledger::begun& x) { look_at_start(x.at); }
  void operator()(const ledger::job& x) { out_.of = x; }
  void operator()(const ledger::committed& x) {
    look_at_start(x.at);
    if (!is_ours(x.at.iteration))
      return;
    out_.newest = x.at.iteration;
    out_.records.emplace_back(x);
  }
  void operator()(const ledger::told& x) {
    const auto of = std::visit([](const auto& f) { return std::uint64_t(f.iteration); }, x.fact);
    if (is_ours(of))
      out_.records.emplace_back(ledger::told{++told_, x.fact});
  }
  void operator()(const ledger::position& x) {
    if (!is_ours(x.at.iteration))
      return;
    out_.records.emplace_back(x);
    if (x.local && (out_.stored.empty() || out_.stored.back() < x.at.iteration))
      out_.stored.push_back(x.at.iteration);
  }
  void operator()(const ledger::validated& x) {
    if (is_ours(x.iteration))
      out_.records.emplace_back(x);
  }
  void operator()(const ledger::tested& x) { out_.records.emplace_back(x); }
  void operator()(const ledger::saved& x) {
    if (is_ours(x.iteration))
      out_.saved = std::max(out_.saved.value_or(0), x.iteration);
  }
  template <class Other>
  void operator()(const Other&) {}

 private:
  bool is_ours(std::uint64_t iteration) const { return iteration > start_.iteration; }
  void look_at_start(const training_position& x) {
    if (x.iteration != start_.iteration)
      return;
    has_start_ = true;
    if (x.consumed != start_.consumed)
      out_.complaint
          = fmt::format("it had consumed {} samples after iteration {}, and here it is {}",
                        x.consumed,
                        x.iteration,
                        start_.consumed);
  }

  const training_position start_;
  bool has_start_ = false;
  std::uint64_t told_ = 0;
  ledger_beyond out_;
};

}  // namespace

ledger_beyond beyond(const std::vector<ledger_record>& all, const training_position& start) {
  beyond_reader by(start);
  for (const auto& one : all)
    std::visit(by, one);
  return by.take();
}

}  // namespace troupe::runtime
