#include "runtime/state/ledger_beyond.hpp"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <map>
#include <optional>
#include <system_error>
#include <utility>
#include <variant>

namespace troupe::runtime {
namespace {

/// COLD-2: visits the records once, in order.
class beyond_reader {
 public:
  explicit beyond_reader(const training_position& start) : start_(start) {
    out_.newest = start.iteration;
  }

  ledger_beyond take() {
    // The record of a position precedes the record of its step.
    std::erase_if(out_.stored, [this](std::uint64_t x) { return x > out_.newest; });
    if (!has_start_ && !out_.stored.empty())
      complain(fmt::format("its ledger is of another training: it does not know iteration {}",
                           start_.iteration));
    out_.records.insert(out_.records.begin(), ledger::begun{start_});
    if (out_.of)
      out_.records.insert(out_.records.begin() + 1, *out_.of);
    out_.records.emplace_back(ledger::succeeded{1});
    // Records that cannot be taken up must not replace the old ledger.
    if (const auto wrong = complaints_of(out_.records); !wrong.empty())
      complain("its ledger is not in order: " + wrong.front());
    return std::move(out_);
  }

  void operator()(const ledger::begun& x) { look_at_start(x.at); }
  void operator()(const ledger::job& x) { out_.of = x; }
  void operator()(const ledger::committed& x) {
    look_at_start(x.at);
    states_[x.at.iteration] = x.state;
    if (!is_ours(x.at.iteration))
      return;
    out_.newest = x.at.iteration;
    out_.records.emplace_back(x);
  }
  // LEDGER-2: it is unknown which result was right, so nothing later can be trusted.
  void operator()(const ledger::replayed& x) {
    if (const auto found = states_.find(x.iteration);
        found != states_.end() && found->second != x.state)
      complain(fmt::format("step {} was computed twice with different results", x.iteration));
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
  // A change of an interval always applies. A change of the learning rate applies only if it is
  // newer than the checkpoint, whose identity has the earlier ones.
  void operator()(const ledger::commanded& x) {
    const bool is_interval = std::holds_alternative<commands::eval_interval>(x.what)
                             || std::holds_alternative<commands::save_interval>(x.what);
    const bool is_rate = std::holds_alternative<commands::learning_rate>(x.what);
    if (is_interval || (is_rate && is_ours(x.step)))
      out_.records.emplace_back(x);
    else if (is_rate)
      out_.changes_rate_before = true;
  }
  void operator()(const ledger::saved& x) {
    if (is_ours(x.iteration))
      out_.saved = std::max(out_.saved.value_or(0), x.iteration);
  }
  template <class Other>
  void operator()(const Other&) {}

 private:
  /// Keeps the first complaint: it is the cause.
  void complain(std::string why) {
    if (out_.complaint.empty())
      out_.complaint = std::move(why);
  }
  bool is_ours(std::uint64_t iteration) const { return iteration > start_.iteration; }
  void look_at_start(const training_position& x) {
    if (x.iteration != start_.iteration)
      return;
    has_start_ = true;
    if (x.consumed != start_.consumed)
      complain(fmt::format(
          "its ledger is of another training: it had consumed {} samples after iteration {}, this "
          "one has consumed {}",
          x.consumed,
          x.iteration,
          start_.consumed));
  }

  const training_position start_;
  bool has_start_ = false;
  std::uint64_t told_ = 0;
  std::map<std::uint64_t, digest> states_;  ///< as committed
  ledger_beyond out_;
};

}  // namespace

ledger_beyond beyond(const std::vector<ledger_record>& all, const training_position& start) {
  beyond_reader by(start);
  for (const auto& one : all)
    std::visit(by, one);
  return by.take();
}

bool has_local_steps(const std::vector<ledger_record>& all) {
  std::optional<std::uint64_t> waiting, stored, saved;
  for (const auto& one : all)
    if (const auto* const step = std::get_if<ledger::position>(&one);
        step != nullptr && step->local)
      waiting = step->at.iteration;
    else if (const auto* const done = std::get_if<ledger::committed>(&one);
             done != nullptr && waiting == done->at.iteration)
      stored = waiting;
    else if (const auto* const save = std::get_if<ledger::saved>(&one))
      saved = save->iteration;
  return stored && (!saved || *stored > *saved);
}

std::string origin_of(const checkpoint_settings& where,
                      const std::string& start,
                      const std::string& save) {
  const auto whole = [](const std::filesystem::path& x) {
    std::error_code failure;
    const auto out = std::filesystem::weakly_canonical(x, failure);
    return failure ? std::filesystem::absolute(x).lexically_normal() : out;
  };
  if (start.empty())
    return where.load_hub.empty() ? ""
                                  : fmt::format("the model '{}'", whole(where.load_hub).string());
  const auto from = whole(start);
  if (!save.empty() && from.parent_path() == (whole(save) / "").parent_path())
    return "";
  return fmt::format("{} '{}'",
                     where.begins_anew_by().empty() ? "the checkpoint" : "the parameters of",
                     from.string());
}

}  // namespace troupe::runtime
