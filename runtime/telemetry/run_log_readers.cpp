#include "runtime/core/json_text.hpp"
#include "runtime/telemetry/run_log.hpp"

#include <charconv>
#include <cmath>
#include <system_error>
#include <utility>

namespace troupe::runtime {
namespace {

/// The record, if it is an object with an iteration; else a discarded value.
nlohmann::json record_in(std::string_view text) {
  constexpr int deepest = 64;  // bounds the recursion over the value
  auto out = json_depth(text) <= deepest ? json_value_or_discarded(text) : nlohmann::json();
  const bool is_record
      = out.is_object() && out.contains("iteration") && out["iteration"].is_number_unsigned();
  return is_record ? std::move(out) : nlohmann::json(nlohmann::json::value_t::discarded);
}

/// Reads the fields of a record that have the expected type.
class field_reader {
 public:
  explicit field_reader(const nlohmann::json& from) : from_(from) {}

  bool is_null(const char* name) const {
    const auto found = from_.find(name);
    return found != from_.end() && found->is_null();
  }
  bool read(const char* name, double& to) const {
    const auto found = from_.find(name);
    const bool right = found != from_.end() && found->is_number();
    if (right)
      to = found->get<double>();
    return right;
  }
  void read(const char* name, std::uint64_t& to) const {
    const auto found = from_.find(name);
    if (found != from_.end() && found->is_number_unsigned())
      to = found->get<std::uint64_t>();
  }
  void read(const char* name, std::int64_t& to) const {
    const auto found = from_.find(name);
    if (found != from_.end())
      to = whole_number_in(*found).value_or(to);
  }
  void read(const char* name, std::string& to) const {
    const auto found = from_.find(name);
    if (found != from_.end() && found->is_string())
      to = found->get<std::string>();
  }

 private:
  const nlohmann::json& from_;
};

/// Parses a digest of 32 hexadecimal digits; zero for other text.
digest digest_of(std::string_view text) {
  constexpr std::size_t half = 16;
  digest out;
  const auto read = [](std::string_view digits, std::uint64_t& to) {
    const auto [end, failure]
        = std::from_chars(digits.data(), digits.data() + digits.size(), to, 16);
    return failure == std::errc{} && end == digits.data() + digits.size();
  };
  const bool right = text.size() == 2 * half && read(text.substr(0, half), out.high)
                     && read(text.substr(half), out.low);
  return right ? out : digest{};
}

pipeline_times pipeline_in(const field_reader& from) {
  pipeline_times out;
  from.read("pipeline_ms", out.ms);
  from.read("planned_pipeline_ms", out.planned_ms);
  from.read("bubble", out.bubble);
  from.read("planned_bubble", out.planned_bubble);
  from.read("action_gap_ms", out.gap_ms);
  from.read("hand_off_ms", out.hand_off_ms);
  from.read("action_lateness_ms", out.late_ms);
  from.read("worst_action_lateness_ms", out.worst_late_ms);
  return out;
}

/// The extremes over all layers, as a layer without a name.
std::vector<expert_load> experts_in(const field_reader& from) {
  expert_load out;
  if (!from.read("expert_entropy", out.entropy))
    return {};
  from.read("most_expert_rows", out.most);
  from.read("least_expert_rows", out.least);
  from.read("dropped_expert_rows", out.dropped);
  return {out};
}

/// The losses of a record with several, by their fields and in their order; otherwise empty.
std::vector<named_loss> losses_in(std::string_view text, std::string_view prefix) {
  std::vector<named_loss> out;
  const auto record = ordered_json_value(text);  // an object, as record_in found
  for (const auto& [key, value] : record.items()) {
    const auto name = std::string_view(key);
    if (name.starts_with(prefix) && is_loss_key(name.substr(prefix.size()))
        && (value.is_number() || value.is_null()))
      out.push_back({key.substr(prefix.size()), value.is_null() ? NAN : value.get<double>()});
  }
  for (auto& one : out)
    for (const std::string name : {lm_loss, best_accuracy_name})
      if (one.key() == named_loss{name}.key())
        one.name = name;
  return out;
}

}  // namespace

std::optional<step_report> read_step_record(std::string_view text) {
  const auto record = record_in(text);
  if (!record.is_object())
    return {};
  const field_reader from(record);
  step_report out;
  from.read("iteration", out.iteration);
  from.read("consumed_samples", out.consumed_samples);
  from.read("consumed_tokens", out.consumed_tokens);
  from.read("global_batch_size", out.global_batch_size);
  if (record.contains("loss"))
    out.losses = losses_in(text, "");
  if (!from.read(out.losses.empty() ? "lm_loss" : "loss", out.loss))
    out.loss = NAN;
  from.read("grad_norm", out.grad_norm);
  if (from.is_null("grad_norm")) {
    out.grad_norm = HUGE_VAL;
    out.skipped.in_a_row = 1;
  }
  from.read("learning_rate", out.learning_rate);
  from.read("elapsed_ms", out.elapsed_ms);
  from.read("tokens_per_second", out.tokens_per_second);
  if (double tera = 0; from.read("teraflops_per_second", tera))
    out.flops_per_second = tera * 1e12;
  from.read("params_norm", out.params_norm);
  if (from.is_null("params_norm"))
    out.params_norm = HUGE_VAL;
  from.read("num_zeros", out.zero_gradients);
  out.pipeline = pipeline_in(from);
  out.experts = experts_in(from);
  from.read("loss_scale", out.scale.value);
  from.read("skipped_iterations", out.skipped.iterations);
  from.read("nan_iterations", out.skipped.nan);
  std::string state;
  from.read("state_digest", state);
  out.state = digest_of(state);
  return out;
}

std::optional<validation_report> read_validation_record(std::string_view text) {
  const auto record = record_in(text);
  if (!record.is_object())
    return {};
  const field_reader from(record);
  validation_report out;
  from.read("iteration", out.iteration);
  out.test = record.contains("test_loss");
  const auto* const name = out.test ? "test_loss" : "validation_loss";
  out.losses = losses_in(text, out.test ? "test_" : "validation_");
  if (from.is_null(name))
    out.loss = NAN;
  else if (!from.read(name, out.loss))
    return {};
  return out;
}

std::optional<run_event> read_event_record(std::string_view text) {
  const auto record = record_in(text);
  if (!record.is_object())
    return {};
  const field_reader from(record);
  run_event out;
  from.read("iteration", out.iteration);
  from.read("event", out.kind);
  from.read("who", out.who);
  from.read("why", out.why);
  from.read("state_from", out.from);
  from.read("resumed_from", out.resumed);
  from.read("generation", out.generation);
  from.read("seconds", out.seconds);
  from.read("verdict", out.verdict);
  from.read("news_ns", out.news_ns);
  from.read("release_seconds", out.release);
  from.read("respawn_seconds", out.respawn);
  from.read("transfer_seconds", out.transfer);
  from.read("rebuild_seconds", out.rebuild);
  return out.kind.empty() ? std::nullopt : std::optional(std::move(out));
}

}  // namespace troupe::runtime
