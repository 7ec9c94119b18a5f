#include "tests/kernels/op_tester.hpp"

#include "kernels/reference/reference.hpp"
#include "tests/support/narrow.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

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

/// What rounding a number of that size once may cost.
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

/// Empty, or how a result differs from the judge's.
std::string difference(const arrays& mine,
                       const array& result,
                       const arrays& exact,
                       const array& wanted,
                       double allowance) {
  const auto of_mine = mine.bytes(result), of_exact = exact.bytes(wanted);
  if (result.units == 0 && result.type == wanted.type)
    return of_mine == of_exact ? "" : "is not the reference's, bit by bit";
  const auto x = mine.values(result), y = exact.values(wanted);
  double largest = result.size;
  for (const double value : y)
    if (std::isfinite(value))
      largest = std::max(largest, std::abs(value));
  const double allowed = result.units * allowance * rounding_of_float * largest;
  double worst = 0;
  std::size_t at = 0, wrong = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    if (poisoned(of_exact, i, bytes_of(wanted.type))) {
      if (!poisoned(of_mine, i, bytes_of(result.type)))
        return "is written at " + std::to_string(i) + ", where nothing is to be";
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
         + " roundings of float beside its own, allowed are "
         + std::to_string(result.units * allowance);
}

/// One operation in one type, and the judge's results.
class question {
 public:
  question(tested_backend& backend, const op_case& what, element_type type)
      : backend_(backend), what_(what), type_(type), exact_(20260101, type) {
    if (what.before.make) {
      judge(what.before.make(element_type::f64, exact_).op);
      exact_.round_results();
    }
    judged_ = std::make_unique<made_operation>(what.op.make(element_type::f64, exact_));
  }

  std::vector<std::string> ask() {
    // All are made before the judge runs: what it changes is copied from it.
    auto by_one = make(0), by_many = make(0), from_odd = make(1), again = make(0);
    std::vector<trial> in_place;
    for (const auto& [result, input] : what_.in_place)
      in_place.push_back(make(0, {{result, input}}));
    judge(judged_->op);

    const int many = backend_.team_sizes().back();
    backend_.run(by_one.op(), 1);
    compare(*by_one.in, "");
    backend_.run(by_many.op(), many);
    compare(*by_many.in, "by " + std::to_string(many) + " threads");
    backend_.run(from_odd.op(), many);
    compare(*from_odd.in, "from unaligned addresses");
    backend_.run_otherwise(again.op(), many);
    same_bits(*again.in, *by_many.in, "in another run, with fewer threads than asked for");
    if (what_.same_bits_by_threads)
      same_bits(*by_many.in, *by_one.in, "by " + std::to_string(many) + " threads");
    if (what_.same_bits_by_address)
      same_bits(*from_odd.in, *by_many.in, "from unaligned addresses");
    for (std::size_t i = 0; i < in_place.size(); ++i) {
      backend_.run(in_place[i].op(), 1);
      same_bits(*in_place[i].in,
                *by_one.in,
                what_.in_place[i].first + " in the place of " + what_.in_place[i].second);
    }
    count(by_one.op(), *by_one.in);
    return wrong_;
  }

 private:
  /// The operation with arrays of its own.
  struct trial {
    std::unique_ptr<arrays> in;
    made_operation made;

    const operation& op() const { return made.op; }
  };

  trial make(std::size_t shift, std::map<std::string, std::string> in_place = {}) {
    auto in = std::make_unique<arrays>(backend_.memory(), exact_, shift, std::move(in_place));
    auto made = what_.op.make(type_, *in);
    return {std::move(in), std::move(made)};
  }

  template <class Visit>
  void for_each_result(const arrays& in, Visit visit) {
    for (const auto& one : exact_.all()) {
      const array* const mine = in.find(one->name);
      if (one->is != role::input && mine != nullptr)
        visit(*one, *mine);
    }
  }

  void complain(const std::string& of, const std::string& how, const std::string& when) {
    wrong_.push_back(backend_.name() + ": " + std::string(text(what_.op.name)) + "<"
                     + std::string(text(type_)) + "> " + what_.shape + ": " + of + " " + how
                     + (when.empty() ? "" : ", " + when));
  }

  void compare(const arrays& mine, const std::string& when) {
    for_each_result(mine, [&](const array& wanted, const array& result) {
      const auto how = difference(mine, result, exact_, wanted, backend_.allowance(what_.op.name));
      if (!how.empty())
        complain(wanted.name, how, when);
    });
    guards(mine, when);
  }

  void guards(const arrays& mine, const std::string& when) {
    if (const auto broken = mine.broken_guard(); !broken.empty())
      complain(broken, "is written beyond its ends", when);
  }

  void same_bits(const arrays& mine, const arrays& first, const std::string& when) {
    for_each_result(first, [&](const array& wanted, const array& result) {
      const auto there = mine.bytes(*mine.find(wanted.name)), here = first.bytes(result);
      const auto size = bytes_of(result.type);
      for (std::size_t i = 0; i < std::size_t(result.n); ++i)
        if (!poisoned(here, i, size)
            && !std::equal(&here[i * size], &here[i * size] + size, &there[i * size]))
          return complain(wanted.name, "has other bits at " + std::to_string(i), when);
    });
    guards(mine, when);
  }

  void count(const operation& op, const arrays& mine) {
    const auto declared
        = kernels::visit(op, [](const auto& any) { return std::int64_t(bytes_moved(any)); });
    if (declared != mine.moved())
      complain("bytes_moved()",
               "declares " + std::to_string(declared) + ", its arrays have "
                   + std::to_string(mine.moved()),
               "");
  }

  tested_backend& backend_;
  const op_case& what_;
  element_type type_;
  arrays exact_;
  std::unique_ptr<made_operation> judged_;
  std::vector<std::string> wrong_;
};

/// Of the sum of y dy over all results y that have a dy.
double loss(const arrays& a) {
  double sum = 0;
  for (const auto& y : a.all()) {
    const array* const dy = a.find("d" + y->name);
    if (y->is == role::input || dy == nullptr || dy->is != role::input)
      continue;
    const auto values = a.values(*y), weights = a.values(*dy);
    for (std::size_t i = 0; i < values.size(); ++i)
      if (std::isfinite(values[i]))  // between heads nothing is written
        sum += values[i] * weights[i];
  }
  return sum;
}

}  // namespace

std::vector<std::string> complaints_of(tested_backend& backend, const op_case& what) {
  std::vector<std::string> out;
  for (const auto type : {element_type::f32, element_type::bf16, element_type::f16}) {
    if (!kernels::exists(what.op.name, type))
      continue;
    const auto wrong = question(backend, what, type).ask();
    out.insert(out.end(), wrong.begin(), wrong.end());
  }
  return out;
}

std::vector<std::string> complaints_of(const gradient_case& what) {
  constexpr double step = 1e-5;
  arrays a(20260102, element_type::f64);
  const auto forward = what.forward.make(element_type::f64, a);
  judge(forward.op);
  // What the forward operation reads: its gradients are asked for. The others read its results.
  std::vector<const array*> inputs;
  for (const auto& one : a.all())
    if (one->is == role::input && one->type == scalar::f64)
      inputs.push_back(one.get());
  std::vector<made_operation> backward;
  std::vector<std::vector<double>> before(inputs.size());
  for (const auto& maker : what.backward) {
    backward.push_back(maker.make(element_type::f64, a));
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (const array* const d = a.find("d" + inputs[i]->name); d != nullptr && before[i].empty())
        before[i] = d->is == role::changed ? a.values(*d) : std::vector<double>(std::size_t(d->n));
    judge(backward.back().op);
  }
  // Named again as results, which the makers of gradients have called inputs.
  for (const auto& one : a.all())
    if (a.find("d" + one->name) != nullptr && a.find("d" + one->name)->is == role::input)
      one->is = role::output;

  std::vector<std::string> wrong;
  std::size_t asked = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const array* const d = a.find("d" + inputs[i]->name);
    if (d == nullptr || d->is == role::input)
      continue;
    ++asked;
    const auto mine = a.values(*d);
    auto x = a.values(*inputs[i]);
    double worst = 0, largest = 1e-30;
    for (std::size_t k = 0; k < x.size(); ++k) {
      const double at = x[k];
      const auto moved = [&](double by) {
        x[k] = at + by;
        a.set(*inputs[i], x);
        judge(forward.op);
        return loss(a);
      };
      const double slope = (moved(step) - moved(-step)) / (2 * step);
      x[k] = at;
      a.set(*inputs[i], x);
      if (!std::isfinite(mine[k]) && slope == 0)
        continue;  // between heads
      const double expected = before[i][k] + slope;
      largest = std::max(largest, std::abs(expected));
      const double away = std::abs(mine[k] - expected);
      worst = std::isnan(away) ? HUGE_VAL : std::max(worst, away);
    }
    if (!(worst <= what.tolerance * largest))
      wrong.push_back("the gradient of " + inputs[i]->name + " of "
                      + std::string(text(what.forward.name)) + " " + what.shape
                      + " differs from finite differences by " + std::to_string(worst / largest)
                      + " of the largest");
  }
  if (asked == 0)
    wrong.push_back("no gradient of " + std::string(text(what.forward.name)) + " was asked for");
  return wrong;
}

}  // namespace troupe::tests
