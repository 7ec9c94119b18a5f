#include "runtime/trainer/scheduler_values.hpp"

#include "runtime/checkpoint/json.hpp"
#include "runtime/core/error.hpp"

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

decay_style style_member(const nlohmann::json& in, const std::string& where) {
  const auto name = string_member(in, "style", where);
  for (const auto style : {decay_style::constant, decay_style::linear, decay_style::cosine})
    if (name == to_string(style))
      return style;
  throw input_error(
      "{}: 'style' should be constant, linear or cosine, but is {}", where, shown(in["style"]));
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
    return std::nullopt;  // a function of the user's, known by its name alone
  scheduler_values out;
  out.rate.maximum = real_member(in, "maximum", where);
  out.rate.minimum = real_member(in, "minimum", where);
  out.rate.warmup_start = real_member(in, "warmup_start", where);
  out.rate.warmup = count_member(in, "warmup", where);
  out.rate.decay = count_member(in, "decay", where);
  out.rate.style = style_member(in, where);
  out.weight_decay = real_member(object_member(all, "optimizer", where), "weight_decay", where);
  if (out.rate.minimum > out.rate.maximum || out.rate.warmup_start > out.rate.maximum
      || out.rate.warmup >= out.rate.decay)
    throw input_error(
        "{}: its learning rate rises to less than it falls to, or for longer than it "
        "has; give the flags of the schedule and `checkpoints.override_scheduler`",
        where);
  return out;
}

std::string differences(const scheduler_values& there, const scheduler_values& here) {
  const auto &a = there.rate, &b = here.rate;
  return difference("`rate.maximum`", a.maximum, b.maximum)
         + difference("`rate.minimum`", a.minimum, b.minimum)
         + difference("`rate.warmup_start`", a.warmup_start, b.warmup_start)
         + difference("warm-up in samples (`rate.warmup`)", a.warmup, b.warmup)
         + difference("decay in samples (`rate.decay`, or the whole run)", a.decay, b.decay)
         + difference("`rate.style`", to_string(a.style), to_string(b.style))
         + difference("`optimizer.weight_decay`", there.weight_decay, here.weight_decay);
}

}  // namespace troupe::runtime
