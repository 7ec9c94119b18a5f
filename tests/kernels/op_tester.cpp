#include "tests/kernels/op_tester.hpp"

#include "kernels/reference/reference.hpp"
#include "tests/support/narrow.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <set>

namespace troupe::tests {

namespace {

using kernels::element_type;
using kernels::operation;
using role = array::role;

constexpr double rounding_of_float = 0x1p-24;
constexpr std::byte poison{0xFF};

void judge(const operation& op) {
  kernels::visit(op, [](const auto& any) { kernels::reference::run(any); });
}

bool poisoned(const std::vector<std::byte>& bytes, std::size_t i, std::size_t size) {
  return std::all_of(bytes.begin() + std::ptrdiff_t(i * size),
                     bytes.begin() + std::ptrdiff_t((i + 1) * size),
                     [](std::byte x) { return x == poison; });
}

/// The maximum error of rounding a number of that size.
double of_rounding(scalar type, double x) {
  switch (type) {
    case scalar::bf16:
      return unit_at<kernels::bf16>(x) / 2;
    case scalar::f16:
      return unit_at<kernels::f16>(x) / 2;
    case scalar::f32:
      return rounding_of_float * std::abs(x);
    default:
      return 0;
  }
}

/// Describes how a result differs from the reference's; empty if it does not.
std::string difference(const arrays& mine,
                       const array& result,
                       const arrays& exact,
                       const array& wanted,
                       double allowance,
                       double roundings_of_products,
                       double roundings_between) {
  const auto of_mine = mine.bytes(result), of_exact = exact.bytes(wanted);
  if (result.units == 0 && result.type == wanted.type)
    return of_mine == of_exact ? "" : "differs in bits from the reference";
  const auto x = mine.values(result), y = exact.values(wanted);
  double largest = result.size;
  for (const double value : y)
    if (std::isfinite(value))
      largest = std::max(largest, std::abs(value));
  const double allowed
      = (result.units * allowance + roundings_of_products) * rounding_of_float * largest
        + roundings_between * of_rounding(result.type, largest);
  double worst = 0;
  std::size_t at = 0, wrong = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    if (poisoned(of_exact, i, bytes_of(wanted.type))) {
      if (!poisoned(of_mine, i, bytes_of(result.type)))
        return "is written at " + std::to_string(i) + ", which must stay untouched";
      continue;
    }
    const bool same = x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i]));
    const double away
        = same ? 0 : std::abs(x[i] - y[i]) - of_rounding(result.type, std::abs(y[i]) + allowed);
    if (!(away <= allowed)) {
      ++wrong;
      if (!(away <= worst)) {
        worst = away;
        at = i;
      }
    }
  }
  if (wrong == 0)
    return "";
  return "differs at " + std::to_string(wrong) + " of " + std::to_string(y.size()) + ": at "
         + std::to_string(at) + " it is " + std::to_string(x[at]) + ", not " + std::to_string(y[at])
         + "; " + std::to_string(worst / (rounding_of_float * std::max(largest, 1e-30)))
         + " roundings of float beyond its own rounding, allowed are "
         + std::to_string(allowed / (rounding_of_float * std::max(largest, 1e-30)));
}

/// Tests one operation in one type against the reference.
class question {
 public:
  question(const op_case& what, element_type type)
      : what_(what), type_(type), exact_(20260101, type) {
    if (what_.before.make) {
      judge(what_.before.make(element_type::f64, exact_).op);
      exact_.round_results();
    }
    judged_ = std::make_unique<made_operation>(what_.op.make(element_type::f64, exact_));
  }

  std::vector<std::string> ask(std::span<tested_backend* const> backends) {
    // Makes all trials before the reference runs, because they copy arrays that it changes.
    std::vector<trials> all;
    for (tested_backend* const backend : backends)
      all.push_back(make_trials(*backend));
    judge(judged_->op);
    for (trials& of : all)
      ask(of);
    return wrong_;
  }

 private:
  /// The operation with its own arrays.
  struct trial {
    std::unique_ptr<arrays> in;
    made_operation made;

    const operation& op() const { return made.op; }
  };
  /// All trials of one backend.
  struct trials {
    tested_backend* backend;
    int many;  ///< thread count of the largest team
    trial by_one, from_odd, again;
    std::optional<trial> in_team;
    std::vector<trial> in_place;
    std::optional<trial> by_reference;
  };

  trial make(tested_memory& memory,
             std::size_t shift,
             std::map<std::string, std::string> in_place = {}) {
    auto in = std::make_unique<arrays>(memory, exact_, shift, std::move(in_place));
    auto made = what_.op.make(type_, *in);
    return {std::move(in), std::move(made)};
  }

  trials make_trials(tested_backend& backend) {
    auto& memory = backend.memory();
    trials out{.backend = &backend,
               .many = backend.team_sizes().back(),
               .by_one = make(memory, 0),
               .from_odd = make(memory, 1),
               .again = make(memory, 0)};
    if (out.many > 1)
      out.in_team = make(memory, 0);
    for (const auto& [result, input] : what_.in_place)
      out.in_place.push_back(make(memory, 0, {{result, input}}));
    if (what_.bits_of_reference)
      out.by_reference = make(host_memory(), 0);
    return out;
  }

  void ask(trials& of) {
    backend_ = of.backend;
    const auto& by_one = of.by_one;
    const auto& by_many = of.in_team ? *of.in_team : by_one;
    backend_->run(by_one.op(), 1);
    compare(*by_one.in, "");
    if (of.in_team) {
      backend_->run(by_many.op(), of.many);
      compare(*by_many.in, "by " + std::to_string(of.many) + " threads");
    }
    backend_->run(of.from_odd.op(), of.many);
    compare(*of.from_odd.in, "from unaligned addresses");
    backend_->run_otherwise(of.again.op(), of.many);
    same_bits(*of.again.in, *by_many.in, "in another run, with fewer threads than requested");
    if (of.in_team && what_.same_bits_by_threads)
      same_bits(*by_many.in, *by_one.in, "by " + std::to_string(of.many) + " threads");
    if (what_.same_bits_by_address)
      same_bits(*of.from_odd.in, *by_many.in, "from unaligned addresses");
    if (of.by_reference) {
      judge(of.by_reference->op());
      same_bits(*by_one.in, *of.by_reference->in, "compared with the reference in the same type");
    }
    for (std::size_t i = 0; i < of.in_place.size(); ++i) {
      backend_->run(of.in_place[i].op(), 1);
      same_bits(*of.in_place[i].in,
                *by_one.in,
                what_.in_place[i].first + " overwriting " + what_.in_place[i].second);
    }
    count(by_one.op(), *by_one.in);
  }

  template <class Visit>
  void for_each_result(const arrays& in, Visit visit) {
    for (const auto& one : exact_.all()) {
      const array* const mine = in.find(one->name);
      if (one->is != role::input && mine != nullptr)
        visit(*one, *mine);
    }
  }

  void complain(const std::string& of, const std::string& fault, const std::string& when) {
    wrong_.push_back(backend_->name() + ": " + std::string(text(what_.op.name)) + "<"
                     + std::string(text(type_)) + "> " + what_.shape + ": " + of + " " + fault
                     + (when.empty() ? "" : ", " + when));
  }

  void compare(const arrays& mine, const std::string& when) {
    for_each_result(mine, [&](const array& wanted, const array& result) {
      const auto fault = difference(mine,
                                    result,
                                    exact_,
                                    wanted,
                                    backend_->allowance(what_.op.name),
                                    backend_->roundings_of_products(result, type_),
                                    backend_->roundings_between(what_.op.name, type_));
      if (!fault.empty())
        complain(wanted.name, fault, when);
    });
    guards(mine, when);
  }

  void guards(const arrays& mine, const std::string& when) {
    if (const auto broken = mine.broken_guard(); !broken.empty())
      complain(broken, "has writes beyond its bounds", when);
  }

  void same_bits(const arrays& mine, const arrays& first, const std::string& when) {
    for_each_result(first, [&](const array& wanted, const array& result) {
      const auto there = mine.bytes(*mine.find(wanted.name)), here = first.bytes(result);
      const auto size = bytes_of(result.type);
      for (std::size_t i = 0; i < std::size_t(result.n); ++i)
        if (!poisoned(here, i, size)
            && !std::equal(&here[i * size], &here[i * size] + size, &there[i * size]))
          return complain(wanted.name, "has different bits at " + std::to_string(i), when);
    });
    guards(mine, when);
  }

  void count(const operation& op, const arrays& mine) {
    const auto declared
        = kernels::visit(op, [](const auto& any) { return std::int64_t(bytes_moved(any)); });
    if (declared != mine.moved())
      complain("bytes_moved()",
               "declares " + std::to_string(declared) + " bytes, but its arrays have "
                   + std::to_string(mine.moved()),
               "");
  }

  const op_case& what_;
  element_type type_;
  arrays exact_;
  std::unique_ptr<made_operation> judged_;
  tested_backend* backend_ = nullptr;  ///< currently under test
  std::vector<std::string> wrong_;
};

/// Compares the gradients of one forward pass with finite differences.
class gradient_question {
 public:
  explicit gradient_question(const gradient_case& what) : what_(what) {
    for (const auto& maker : what.forward) {
      forward_.push_back(maker.make(element_type::f64, a_));
      note_written();
    }
    results_ = written_;
    for (const auto& one : a_.all()) {
      const bool real = one->type == scalar::f64 || one->type == scalar::f32;
      const bool in_place = one->is == role::changed;
      if (real && (in_place || !results_.contains(one.get())))
        inputs_.push_back({one.get(), in_place, a_.values(*one), {}});
    }
  }

  std::vector<std::string> ask() {
    (void)loss();  // also computes what the backward operations read
    backward();
    std::vector<std::string> wrong;
    std::size_t asked = 0;
    for (auto& one : inputs_) {
      const array* const d = gradient_of(*one.x);
      if (d == nullptr || !written_.contains(d))
        continue;
      ++asked;
      if (const double away = worst_of(one, a_.values(*d)); !(away <= what_.tolerance))
        wrong.push_back("the gradient of " + one.x->name + " of " + name() + " " + what_.shape
                        + " differs from finite differences by " + std::to_string(away)
                        + " of the largest");
    }
    if (asked == 0)
      wrong.push_back("no gradient of " + name() + " was tested");
    return wrong;
  }

 private:
  struct read_array {
    const array* x;
    bool in_place;
    std::vector<double> at;      ///< values before the forward pass
    std::vector<double> before;  ///< initial values of an accumulated gradient
  };

  std::string name() const { return std::string(text(what_.forward.back().name)); }
  const array* gradient_of(const array& x) const { return a_.find("d" + x.name); }

  void note_written() {
    for (const auto& one : a_.all())
      if (one->is != role::input)
        written_.insert(one.get());
  }

  void backward() {
    std::vector<made_operation> made;
    for (const auto& maker : what_.backward) {
      made.push_back(maker.make(element_type::f64, a_));
      note_gradients();
      note_written();
      judge(made.back().op);
    }
  }

  /// Saves what a backward operation reads before the next one overwrites it: gradients of results,
  /// and the initial values of accumulated gradients.
  void note_gradients() {
    for (const array* const y : results_) {
      const array* const dy = gradient_of(*y);
      if (dy != nullptr && !written_.contains(dy)
          && (dy->is == role::input || y->is == role::changed))
        weights_.try_emplace(y, a_.values(*dy));
    }
    for (auto& one : inputs_)
      if (const array* const dx = gradient_of(*one.x); dx != nullptr && one.before.empty())
        one.before = dx->is == role::changed && !one.in_place
                         ? a_.values(*dx)
                         : std::vector<double>(std::size_t(dx->n));
  }

  /// The sum of y dy over all results y that have a dy.
  double loss() {
    for (const auto& one : inputs_)
      a_.set(*one.x, one.at);
    for (const auto& one : forward_)
      judge(one.op);
    double sum = 0;
    for (const auto& [y, weights] : weights_) {
      const auto values = a_.values(*y);
      for (std::size_t i = 0; i < values.size(); ++i)
        if (std::isfinite(values[i]))  // elements between heads are not written
          sum += values[i] * weights[i];
    }
    return sum;
  }

  /// Central difference of order eight.
  double slope(double& x) {
    constexpr double factors[] = {4.0 / 5, -1.0 / 5, 4.0 / 105, -1.0 / 280};
    const double at = x;
    double sum = 0;
    for (int i = 1; i <= 4; ++i) {
      x = at + i * what_.step;
      const double up = loss();
      x = at - i * what_.step;
      sum += factors[i - 1] * (up - loss());
    }
    x = at;
    return sum / what_.step;
  }

  /// Largest error of an input's gradient, relative to the largest gradient.
  double worst_of(read_array& of, const std::vector<double>& mine) {
    double worst = 0, largest = 1e-30;
    for (std::size_t k = 0; k < of.at.size(); ++k) {
      const double by = slope(of.at[k]);
      if (!std::isfinite(mine[k]) && by == 0)
        continue;  // between heads
      const double expected = of.before[k] + by, away = std::abs(mine[k] - expected);
      largest = std::max(largest, std::abs(expected));
      worst = std::isnan(away) ? HUGE_VAL : std::max(worst, away);
    }
    return worst / largest;
  }

  const gradient_case& what_;
  arrays a_{20260102, element_type::f64};
  std::vector<made_operation> forward_;
  std::set<const array*> results_;  ///< results of the forward pass
  std::set<const array*> written_;  ///< written by any operation made so far
  std::vector<read_array> inputs_;
  std::map<const array*, std::vector<double>> weights_;  ///< dy of each result y
};

}  // namespace

std::vector<std::string> complaints_of(std::span<tested_backend* const> backends,
                                       const op_case& what) {
  std::vector<std::string> out;
  for (const auto type : {element_type::f32, element_type::bf16, element_type::f16}) {
    if (!kernels::exists(what.op.name, type))
      continue;
    const auto wrong = question(what, type).ask(backends);
    out.insert(out.end(), wrong.begin(), wrong.end());
  }
  return out;
}

std::vector<std::string> complaints_of(const gradient_case& what) {
  return gradient_question(what).ask();
}

}  // namespace troupe::tests
