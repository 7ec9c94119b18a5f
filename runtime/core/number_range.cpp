#include "runtime/core/number_range.hpp"

#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <system_error>

namespace troupe::runtime {
namespace {

template <class Number>
std::optional<Number> number_of(std::string_view word) {
  Number out = 0;
  const auto [end, failure] = std::from_chars(word.data(), word.data() + word.size(), out);
  if (failure != std::errc() || end != word.data() + word.size())
    return std::nullopt;
  return out;
}

std::string text_of(double x) {
  const auto exact = fmt::format("{}", x);
  return exact.size() > 12 ? fmt::format("{:.6g}", x) : exact;
}

/// "0 to 1", "0 to below 1", "above 0 to 1", "0 or more", "above 0".
std::string between(const real_range& x) {
  const bool starts = x.least > std::numeric_limits<double>::lowest();
  const bool ends = x.most < std::numeric_limits<double>::max();
  const auto from = (x.above ? "above " : "") + text_of(x.least);
  const auto to = (x.below ? "below " : "") + text_of(x.most);
  if (starts && ends)
    return from + " to " + to;
  if (starts)
    return x.above ? from : from + " or more";
  if (ends)
    return x.below ? to : to + " or less";
  return "";
}

}  // namespace

std::optional<std::int64_t> number_in(const whole_range& range, std::string_view word) {
  const auto x = number_of<std::int64_t>(word);
  return x && *x >= range.least && *x <= range.most ? x : std::nullopt;
}

std::optional<double> number_in(const real_range& range, std::string_view word) {
  const auto x = number_of<double>(word);
  const bool taken = x && std::isfinite(*x) && *x >= range.least && *x <= range.most
                     && !(range.above && *x == range.least) && !(range.below && *x == range.most);
  return taken ? x : std::nullopt;
}

bool takes(const number_range& range, std::string_view word) {
  if (const auto* whole = std::get_if<whole_range>(&range))
    return number_in(*whole, word).has_value();
  if (const auto* real = std::get_if<real_range>(&range))
    return number_in(*real, word).has_value();
  return true;
}

std::string range_text(const whole_range& range) {
  return fmt::format("a whole number from {} to {}", range.least, range.most);
}

std::string range_text(const real_range& range) {
  const auto text = between(range);
  if (text.empty())
    return "a number";
  const bool from = text.find(" to ") != std::string::npos && !range.above;
  const bool of = text.ends_with(" or more") || text.ends_with(" or less");
  return (from ? "a number from " : of ? "a number of " : "a number ") + text;
}

std::string range_text(const number_range& range) {
  if (const auto* whole = std::get_if<whole_range>(&range))
    return range_text(*whole);
  if (const auto* real = std::get_if<real_range>(&range))
    return range_text(*real);
  return "a text";
}

std::string told_shortly(const number_range& range) {
  if (const auto* whole = std::get_if<whole_range>(&range))
    return whole->most < std::numeric_limits<std::int32_t>::max()
               ? fmt::format("{} to {}", whole->least, whole->most)
               : fmt::format("{} or more", whole->least);
  if (const auto* real = std::get_if<real_range>(&range))
    return between(*real);
  return "";
}

}  // namespace troupe::runtime
