#include "runtime/template/builtins.hpp"
#include "runtime/template/text.hpp"

#include <algorithm>
#include <cmath>

namespace troupe::runtime::jinja {
namespace {

[[noreturn]] void too_large(evaluator& with, const std::string& by) {
  with.use.fail(fmt::format("the result of {} needs more than 64 bits", by));
}

std::int64_t floor_divided(evaluator& with, std::int64_t a, std::int64_t b) {
  if (b == 0)
    with.use.fail("division by zero");
  if (b == -1) {
    if (a == INT64_MIN)
      too_large(with, "//");
    return -a;
  }
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

std::int64_t remainder_of(evaluator& with, std::int64_t a, std::int64_t b) {
  if (b == 0)
    with.use.fail("division by zero");
  if (b == -1)
    return 0;
  const auto rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

value power_of(evaluator& with, std::int64_t a, std::int64_t b) {
  if (b < 0) {
    if (a == 0)
      with.use.fail("0 cannot be raised to a negative power");
    return std::pow(double(a), double(b));
  }
  if (a == 0 || a == 1)
    return b == 0 ? std::int64_t{1} : a;
  if (a == -1)
    return std::int64_t{b % 2 == 0 ? 1 : -1};
  std::int64_t out = 1;
  for (; b > 0; --b)
    if (__builtin_mul_overflow(out, a, &out))
      too_large(with, "**");
  return out;
}

value of_integers(evaluator& with, const std::string& by, std::int64_t a, std::int64_t b) {
  std::int64_t out = 0;
  const bool overflows = by == "+"   ? __builtin_add_overflow(a, b, &out)
                         : by == "-" ? __builtin_sub_overflow(a, b, &out)
                         : by == "*" ? __builtin_mul_overflow(a, b, &out)
                                     : false;
  if (overflows)
    too_large(with, by);
  if (by == "//")
    return floor_divided(with, a, b);
  if (by == "%")
    return remainder_of(with, a, b);
  if (by == "**")
    return power_of(with, a, b);
  if (by != "/")
    return out;
  if (b == 0)
    with.use.fail("division by zero");
  return double(a) / double(b);
}

value of_reals(evaluator& with, const std::string& by, double a, double b) {
  if (by == "+")
    return a + b;
  if (by == "-")
    return a - b;
  if (by == "*")
    return a * b;
  if (by == "**") {
    const auto out = std::pow(a, b);
    if (!std::isfinite(out) && std::isfinite(a) && std::isfinite(b))
      with.use.fail("a power is not a number");
    return out;
  }
  if (b == 0)
    with.use.fail("division by zero");
  if (by == "/")
    return a / b;
  auto rest = std::fmod(a, b);
  if (rest != 0 && (rest < 0) != (b < 0))
    rest += b;
  if (by == "%")
    return rest;
  const auto whole = (a - rest) / b;
  const auto floor = std::floor(whole);
  return whole - floor > 0.5 ? floor + 1 : floor;
}

value repeated(evaluator& with, const value& what, std::int64_t times) {
  const auto count = std::uint64_t(std::max<std::int64_t>(times, 0));
  if (const auto* text = what.text()) {
    if (!text->empty() && count > (std::uint64_t{1} << 40) / text->size())
      with.use.make_text(std::size_t{1} << 40);
    with.use.make_text(text->size() * count);
    std::string out;
    for (std::uint64_t i = 0; i < count && !text->empty(); ++i)
      out += *text;
    return out;
  }
  const auto& items = what.elements()->items;
  constexpr std::uint64_t most = std::uint64_t{1} << 40;
  with.use.make_elements(count > most / (items.size() + 1) ? most : items.size() * count);
  values out;
  for (std::uint64_t i = 0; i < count && !items.empty(); ++i)
    out.insert(out.end(), items.begin(), items.end());
  return make_sequence(with.use, std::move(out), what.elements()->is);
}

bool is_repeatable(const value& of) {
  return of.text() != nullptr || of.has_form(form::list) || of.has_form(form::tuple);
}

/// Escapes a text for HTML before it is added to a text marked by |safe.
std::string escaped(evaluator& with, const value& of) {
  if (of.is_marked())
    return *of.text();
  constexpr std::size_t longest = 5;
  const auto marks = std::ranges::count_if(*of.text(), [](char c) {
    return std::string_view("&<>'\"").find(c) != std::string_view::npos;
  });
  with.use.make_text(of.text()->size() + longest * std::size_t(marks));
  std::string out;
  for (const char c : *of.text())
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '\'':
        out += "&#39;";
        break;
      case '"':
        out += "&#34;";
        break;
      default:
        out.push_back(c);
    }
  return out;
}

/// nullopt when the two cannot be concatenated.
std::optional<value> concatenated(evaluator& with, const value& a, const value& b) {
  if (const auto* x = a.text(), *y = b.text(); x != nullptr && y != nullptr) {
    with.use.make_text(x->size() + y->size());
    if (a.is_marked() || b.is_marked())
      return value::marked(escaped(with, a) + escaped(with, b));
    return *x + *y;
  }
  for (const auto which : {form::list, form::tuple})
    if (a.has_form(which) && b.has_form(which)) {
      with.use.make_elements(a.elements()->items.size() + b.elements()->items.size());
      auto items = a.elements()->items;
      items.insert(items.end(), b.elements()->items.begin(), b.elements()->items.end());
      return make_sequence(with.use, std::move(items), which);
    }
  return std::nullopt;
}

/// The indices that a slice selects from `size` elements.
std::vector<std::size_t> indices(evaluator& with,
                                 std::int64_t size,
                                 std::optional<std::int64_t> from,
                                 std::optional<std::int64_t> to,
                                 std::int64_t step) {
  if (step == 0)
    with.use.fail("the step of a slice is 0");
  const std::int64_t low = step > 0 ? 0 : -1, high = step > 0 ? size : size - 1;
  const auto clipped
      = [&](std::int64_t at) { return std::clamp(at < 0 ? at + size : at, low, high); };
  const auto begin = from ? clipped(*from) : step > 0 ? low : high;
  const auto end = to ? clipped(*to) : step > 0 ? high : low;
  step = std::clamp(step, -size - 1, size + 1);
  const auto stretch = step > 0 ? end - begin : begin - end;
  with.use.step(stretch > 0 ? std::uint64_t(stretch / std::abs(step)) : 0);
  std::vector<std::size_t> out;
  for (auto at = begin; step > 0 ? at < end : at > end; at += step)
    out.push_back(std::size_t(at));
  return out;
}

}  // namespace

void require_defined(evaluator& with, const value& of) {
  if (const auto* missing = of.as<undefined>())
    with.use.fail(*missing->why);
}

value combined(evaluator& with, const std::string& by, const value& a, const value& b) {
  require_defined(with, a);
  require_defined(with, b);
  if (const auto x = a.whole(), y = b.whole(); x && y)
    return of_integers(with, by, *x, *y);
  if (const auto x = a.real(), y = b.real(); x && y)
    return of_reals(with, by, *x, *y);
  if (by == "+")
    if (auto out = concatenated(with, a, b))
      return *out;
  if (by == "*" && is_repeatable(a) && b.whole())
    return repeated(with, a, *b.whole());
  if (by == "*" && is_repeatable(b) && a.whole())
    return repeated(with, b, *a.whole());
  if (by == "%" && a.text() != nullptr)
    with.use.fail("formatting a text by % is not supported: use ~");
  with.use.fail(fmt::format("'{}' {} '{}' has no meaning{}",
                            type_name(a),
                            by,
                            type_name(b),
                            by == "+" && (a.text() != nullptr || b.text() != nullptr)
                                ? ": only a str can be added to a str"
                                : ""));
}

value negated(evaluator& with, const value& a) {
  require_defined(with, a);
  if (const auto x = a.whole()) {
    if (*x == INT64_MIN)
      too_large(with, "-");
    return -*x;
  }
  if (const auto x = a.real())
    return -*x;
  with.use.fail(fmt::format("a '{}' has no sign", type_name(a)));
}

value sliced(evaluator& with,
             const value& of,
             const std::optional<std::int64_t>& from,
             const std::optional<std::int64_t>& to,
             const std::optional<std::int64_t>& step) {
  require_defined(with, of);
  const auto by = step.value_or(1);
  if (const auto* list = of.elements(); list != nullptr && list->is <= form::range) {
    values out;
    for (const auto at : indices(with, std::int64_t(list->items.size()), from, to, by))
      out.push_back(list->items[at]);
    return make_sequence(
        with.use, std::move(out), list->is == form::tuple ? form::tuple : form::list);
  }
  const auto* text = of.text();
  if (text == nullptr)
    return undefined_because(fmt::format("a '{}' cannot be sliced", type_name(of)));
  with.use.make_text(text->size());
  const auto size = std::int64_t(length(*text));
  if (by == 1) {
    const auto at = indices(with, size, from, to, 1);
    const auto begin = at.empty() ? 0 : byte_of(*text, at.front());
    const auto end = at.empty() ? 0 : byte_of(*text, at.back() + 1);
    return std::string_view(*text).substr(begin, end - begin);
  }
  with.use.make_text(4 * text->size());
  with.use.look_at(text->size());
  std::u32string all;
  for (std::size_t at = 0; at < text->size();)
    all.push_back(next_character(*text, at));
  std::string out;
  for (const auto at : indices(with, size, from, to, by))
    append_character(out, all[at]);
  return out;
}

}  // namespace troupe::runtime::jinja
