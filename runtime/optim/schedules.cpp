#include "runtime/optim/schedules.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/names.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numbers>

namespace troupe::runtime {

namespace {

constexpr std::string_view decay_names[]
    = {"constant", "linear", "cosine", "inverse-square-root", "WSD"};
constexpr std::string_view end_names[] = {"exponential", "linear", "cosine", "minus_sqrt"};
constexpr std::string_view increase_names[] = {"constant", "linear", "cosine"};

/// Falls from 1 to 0.
double half_cosine(double share) {
  return 0.5 * (std::cos(std::numbers::pi * share) + 1);
}

/// Returns the coefficient of the rate at a share of the final decay.
double end_coefficient(wsd_style style, double share) {
  switch (style) {
    case wsd_style::exponential:
      return 2 * std::pow(0.5, share) - 1;
    case wsd_style::linear:
      return 1 - share;
    case wsd_style::cosine:
      return half_cosine(share);
    case wsd_style::minus_sqrt:
      return 1 - std::sqrt(share);
  }
  return 0;
}

double coefficient(const rate_schedule& s, double n) {
  if (s.style == decay_style::wsd) {
    const double stable = double(s.decay - s.end_decay);
    return n <= stable ? 1 : end_coefficient(s.end_style, (n - stable) / double(s.end_decay));
  }
  const double r = (n - s.warmup) / (double(s.decay) - s.warmup);
  return s.style == decay_style::linear ? 1 - r : half_cosine(r);
}

/// Parses "250B" as a whole number; nothing if malformed.
std::optional<std::int64_t> suffixed_number(std::string_view text) {
  double factor = 1;
  if (!text.empty())
    switch (text.back()) {
      case 'K':
      case 'k':
        factor = 1e3;
        break;
      case 'M':
      case 'm':
        factor = 1e6;
        break;
      case 'B':
      case 'b':
        factor = 1e9;
        break;
      case 'T':
      case 't':
        factor = 1e12;
        break;
      default:
        break;
    }
  if (factor > 1)
    text.remove_suffix(1);
  double x = 0;
  const auto read
      = std::from_chars(text.data(), text.data() + text.size(), x, std::chars_format::fixed);
  if (read.ec != std::errc() || read.ptr != text.data() + text.size() || !(x >= 0)
      || x * factor > 9e15)
    return std::nullopt;
  return std::int64_t(x * factor);
}

void check_steps(const batch_schedule& s) {
  if (s.ramp_start > 0)
    throw input_error(
        "`batch.ramp` and `batch.steps` both set the growth of the batch size; give one");
  if (s.steps.front().from != 0)
    throw input_error(
        "`batch.steps`: its first entry begins at {} samples; one must begin at 0, for the first "
        "step",
        s.steps.front().from);
  for (std::size_t i = 1; i < s.steps.size(); ++i)
    if (s.steps[i].from <= s.steps[i - 1].from)
      throw input_error(
          "`batch.steps`: two entries begin at {} samples; give thresholds that differ by at least "
          "one sample",
          s.steps[i].from);
  if (s.steps.back().size != s.global)
    throw input_error("`batch.steps` ends with {} samples per step, but `batch.global` is {}",
                      s.steps.back().size,
                      s.global);
}

}  // namespace

std::string_view to_string(decay_style x) {
  return decay_names[std::size_t(x)];
}
std::string_view to_string(wsd_style x) {
  return end_names[std::size_t(x)];
}
std::string_view to_string(increase_style x) {
  return increase_names[std::size_t(x)];
}
std::optional<decay_style> decay_style_from(std::string_view name) {
  return value_named<decay_style>(decay_names, name);
}
std::optional<wsd_style> wsd_style_from(std::string_view name) {
  return value_named<wsd_style>(end_names, name);
}
std::optional<increase_style> increase_style_from(std::string_view name) {
  return value_named<increase_style>(increase_names, name);
}

double learning_rate(const rate_schedule& s, std::int64_t consumed) {
  const double n = double(consumed);
  if (s.warmup > 0 && n <= s.warmup)
    return s.warmup_start + (s.maximum - s.warmup_start) * n / s.warmup;
  if (s.style == decay_style::constant)
    return s.maximum;
  if (consumed > s.decay || double(s.decay) <= s.warmup)
    return s.minimum;
  if (s.style == decay_style::inverse_square_root)
    return std::max(s.minimum,
                    s.maximum * std::sqrt(std::max(s.warmup, 1.0)) / std::sqrt(std::max(n, 1.0)));
  return s.minimum + coefficient(s, n) * (s.maximum - s.minimum);
}

double rate_factor(const std::vector<rate_change>& all, std::uint64_t step) {
  for (auto one = all.rbegin(); one != all.rend(); ++one)
    if (one->step <= step)
      return one->factor;
  return 1;
}

double decoupled_learning_rate(const rate_schedule& s, std::int64_t consumed) {
  auto own = s;
  own.maximum = s.decoupled_maximum;
  own.minimum = s.decoupled_minimum;
  return learning_rate(own, consumed);
}

double weight_decay(const weight_decay_schedule& s, std::int64_t consumed) {
  if (s.style == increase_style::constant || consumed > s.samples)
    return s.end;
  const double share = double(consumed) / double(s.samples);
  const double c = s.style == increase_style::linear ? share : half_cosine(1 - share);
  return s.start + c * (s.end - s.start);
}

std::vector<batch_step> batch_steps_from(std::string_view text, std::int64_t tokens_of_a_sample) {
  std::vector<batch_step> out;
  constexpr std::string_view between = " ,\t\n";
  for (auto at = text.find_first_not_of(between); at != text.npos;
       at = text.find_first_not_of(between, at)) {
    const auto end = std::min(text.find_first_of(between, at), text.size());
    const auto entry = text.substr(at, end - at);
    at = end;
    const auto colon = std::min(entry.find(':'), entry.size());
    const auto tokens = suffixed_number(entry.substr(0, colon));
    const auto size = suffixed_number(entry.substr(std::min(colon + 1, entry.size())));
    if (!tokens || !size || *size < 1)
      throw input_error(
          "`batch.steps`: '{}' is not TOKENS:SIZE, such as 0:768 or 250B:1536: from this number of "
          "tokens on, a step has SIZE samples",
          entry);
    out.push_back({*tokens / tokens_of_a_sample, *size});
  }
  if (out.empty())
    throw input_error("`batch.steps` is empty: give TOKENS:SIZE, such as '0:768 250B:1536'");
  std::stable_sort(out.begin(), out.end(), [](const batch_step& a, const batch_step& b) {
    return a.from < b.from;
  });
  return out;
}

bool is_settled(const batch_schedule& s, std::int64_t consumed) {
  if (!s.steps.empty())
    return consumed >= s.steps.back().from;
  return s.ramp_start == 0 || consumed > s.ramp_samples || s.ramp_start == s.global;
}

std::int64_t global_batch_size(const batch_schedule& s, std::int64_t consumed) {
  if (is_settled(s, consumed))
    return s.global;
  if (!s.steps.empty())
    return std::find_if(s.steps.rbegin(),
                        s.steps.rend(),
                        [&](const batch_step& x) { return x.from <= consumed; })
        ->size;
  const auto increments = (s.global - s.ramp_start) / s.ramp_increment;
  const double each = double(s.ramp_samples) / double(increments);
  const auto done = each > 0 ? std::int64_t(double(consumed) / each) : increments;
  return s.ramp_start + done * s.ramp_increment;
}

std::int64_t microbatches(const batch_schedule& s, std::int64_t consumed) {
  return global_batch_size(s, consumed) / (s.micro * s.data_parallel);
}

void check(const batch_schedule& s) {
  if (s.micro < 1 || s.global < 1)
    throw input_error(
        "`batch.micro` {} and `batch.global` {} must be at least 1", s.micro, s.global);
  const auto each = s.micro * s.data_parallel;
  const auto divides = [&](std::int64_t size, const char* what) {
    if (size % each == 0 && size > 0)
      return;
    const auto below = size / each * each;
    throw input_error(
        "{} {} is not a multiple of `batch.micro` {} times the {} data-parallel replicas: "
        "every replica gets the same number of micro-batches; nearest valid: {}",
        what,
        size,
        s.micro,
        s.data_parallel,
        below > 0 && size - below <= each / 2 ? below : below + each);
  };
  if (!s.steps.empty()) {
    check_steps(s);
    for (const auto& x : s.steps)
      divides(x.size, "`batch.steps`: batch size");
    return;
  }
  divides(s.global, "`batch.global`");
  if (s.ramp_start == 0)
    return;
  if (s.ramp_increment < 1 || s.ramp_samples < 0 || s.ramp_start > s.global
      || (s.global - s.ramp_start) % s.ramp_increment != 0)
    throw input_error(
        "`batch.ramp` {} {} {}: a whole number of increments must lead from the start batch size "
        "to `batch.global` {}",
        s.ramp_start,
        s.ramp_increment,
        s.ramp_samples,
        s.global);
  for (auto size = s.ramp_start; size < s.global; size += s.ramp_increment)
    divides(size, "`batch.ramp`: batch size");
}

}  // namespace troupe::runtime
