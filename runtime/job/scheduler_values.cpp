#include "runtime/job/scheduler_values.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/json_reader.hpp"
#include "runtime/core/json_text.hpp"

#include <cmath>

namespace troupe::runtime {
namespace {

double real_member(const nlohmann::json& in, const char* key, const std::string& where) {
  const auto& found = member(in, key, where);
  if (!found.is_number() || !std::isfinite(found.get<double>()) || found.get<double>() < 0)
    throw input_error(
        "{}: '{}' should be a number of 0 or more, but is {}", where, key, shown(found));
  return found.get<double>();
}

template <class Style>
Style style_member(const nlohmann::json& in,
                   const char* key,
                   std::optional<Style> (*from)(std::string_view),
                   const char* allowed,
                   const std::string& where) {
  if (const auto found = from(string_member(in, key, where)))
    return *found;
  throw input_error("{}: '{}' should be {}, but is {}", where, key, allowed, shown(in[key]));
}

rate_schedule rate_in(const nlohmann::json& in, const std::string& where) {
  rate_schedule out;
  out.maximum = real_member(in, "maximum", where);
  out.minimum = real_member(in, "minimum", where);
  out.warmup_start = real_member(in, "warmup_start", where);
  out.warmup = real_member(in, "warmup", where);
  out.decay = count_member(in, "decay", where);
  out.style = style_member(
      in, "style", decay_style_from, "constant, linear, cosine, inverse-square-root or WSD", where);
  if (out.style == decay_style::wsd) {
    out.end_style = style_member(
        in, "wsd_style", wsd_style_from, "exponential, linear, cosine or minus_sqrt", where);
    out.end_decay = count_member(in, "wsd_decay", where);
  }
  if (in.contains("decoupled_maximum")) {
    out.decoupled_maximum = real_member(in, "decoupled_maximum", where);
    out.decoupled_minimum = real_member(in, "decoupled_minimum", where);
  }
  const bool ends
      = out.style != decay_style::wsd || (out.end_decay >= 1 && out.end_decay <= out.decay);
  if (out.minimum > out.maximum || out.warmup_start > out.maximum || out.warmup >= double(out.decay)
      || out.decoupled_minimum > out.decoupled_maximum || !ends)
    throw input_error(
        "{}: its learning rate peaks below its minimum, or rises for longer than its decay; give "
        "the flags of the schedule and `checkpoints.override_scheduler`",
        where);
  return out;
}

weight_decay_schedule weight_decay_in(const nlohmann::json& in, const std::string& where) {
  weight_decay_schedule out;
  out.start = out.end = real_member(in, "weight_decay", where);
  if (!in.contains("weight_decay_style"))
    return out;
  out.style = style_member(
      in, "weight_decay_style", increase_style_from, "constant, linear or cosine", where);
  out.start = real_member(in, "start_weight_decay", where);
  out.samples = count_member(in, "weight_decay_samples", where);
  if (out.start > out.end || out.samples < 1)
    throw input_error(
        "{}: its weight decay falls, or grows over no samples; give the flags of the schedule and "
        "`checkpoints.override_scheduler`",
        where);
  return out;
}

/// "80 samples (10 steps of 8)"
std::string counted_samples(double x, std::int64_t batch) {
  auto out = fmt::format("{} samples", x);
  if (batch > 1 && std::fmod(x, double(batch)) == 0)
    out += fmt::format(" ({} steps of {})", x / double(batch), batch);
  return out;
}

template <class T>
std::string difference(const char* name, const T& there, const T& here) {
  return there == here ? "" : fmt::format("\n  {}: checkpoint {}, this run {}", name, there, here);
}

}  // namespace

std::optional<scheduler_values> scheduler_values_in(const std::string& identity,
                                                    const std::string& where) {
  const auto all = parse_json(identity, where);
  if (!all.is_object() || !all.contains("rate") || !all.contains("optimizer"))
    return std::nullopt;
  const auto& in = object_member(all, "rate", where);
  if (in.contains("own"))
    return std::nullopt;  // a user's function; the identity has only its name
  scheduler_values out;
  out.rate = rate_in(in, where);
  out.weight_decay = weight_decay_in(object_member(all, "optimizer", where), where);
  if (const auto batch = all.find("batch"); batch != all.end() && batch->is_object())
    if (const auto size = batch->find("global"); size != batch->end())
      if (const auto value = whole_number_in(*size); value && *value >= 0)
        out.global_batch = *value;
  return out;
}

std::string differences(const scheduler_values& there, const scheduler_values& here) {
  const auto &a = there.rate, &b = here.rate;
  const auto &x = there.weight_decay, &y = here.weight_decay;
  const auto samples = [&](const char* name, double of_there, double of_here) {
    return of_there == of_here ? ""
                               : difference(name,
                                            counted_samples(of_there, there.global_batch),
                                            counted_samples(of_here, here.global_batch));
  };
  return difference("`rate.maximum`", a.maximum, b.maximum)
         + difference("`rate.minimum`", a.minimum, b.minimum)
         + difference("`rate.warmup_start`", a.warmup_start, b.warmup_start)
         + samples("warm-up (`rate.warmup_iterations`, `rate.warmup`)", a.warmup, b.warmup)
         + samples("decay (`rate.decay_iterations`, `rate.decay`, or the whole run)",
                   double(a.decay),
                   double(b.decay))
         + difference("`rate.style`", to_string(a.style), to_string(b.style))
         + difference("`rate.wsd_style`", to_string(a.end_style), to_string(b.end_style))
         + samples("last decay (`rate.wsd_decay_iterations`, `rate.wsd_decay`)",
                   double(a.end_decay),
                   double(b.end_decay))
         + difference("`rate.decoupled_maximum`", a.decoupled_maximum, b.decoupled_maximum)
         + difference("`rate.decoupled_minimum`", a.decoupled_minimum, b.decoupled_minimum)
         + difference(x.style == y.style && x.style == increase_style::constant
                          ? "`optimizer.weight_decay`"
                          : "`optimizer.end_weight_decay`",
                      x.end,
                      y.end)
         + difference("`optimizer.weight_decay_style`", to_string(x.style), to_string(y.style))
         + (x.style == increase_style::constant && y.style == increase_style::constant
                ? ""
                : difference("`optimizer.start_weight_decay`", x.start, y.start)
                      + samples("growth of weight decay (the whole run)",
                                double(x.samples),
                                double(y.samples)));
}

}  // namespace troupe::runtime
