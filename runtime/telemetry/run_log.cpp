#include "runtime/telemetry/run_log.hpp"

#include "runtime/core/json_text.hpp"
#include "runtime/telemetry/growing_file.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

namespace troupe::runtime {
namespace {

constexpr const char* line_end = "\r\n";  // RFC 4180

double teraflops(const step_report& x, const log_settings& settings) {
  return settings.throughput ? x.flops_per_second / 1e12 : NAN;
}

double share_of_rate(const step_report& x, const log_settings& settings) {
  return settings.throughput && settings.matrix_rate > 0 ? x.flops_per_second / settings.matrix_rate
                                                         : NAN;
}

/// Shortest text that parses to the same double; empty if not finite.
std::string cell(double x) {
  return std::isfinite(x) ? fmt::format("{}", x) : std::string();
}

/// (field, mean) of a validation. The sum is always the field "loss", with the prefix.
std::vector<std::pair<std::string, double>> loss_fields(const validation_report& x,
                                                        const std::string& prefix) {
  std::vector<std::pair<std::string, double>> out = {{prefix + "loss", x.loss}};
  for (const auto& one : x.losses)
    out.emplace_back(prefix + one.key(), one.mean);
  return out;
}

using row_cells = std::vector<std::pair<std::string, std::string>>;

/// (column, text) of a row.
row_cells cells_of(const step_report& x,
                   const validation_report* validated,
                   const log_settings& settings) {
  row_cells out = {{"iteration", std::to_string(x.iteration)},
                   {"consumed_samples", std::to_string(x.consumed_samples)},
                   {"consumed_tokens", std::to_string(x.consumed_tokens)}};
  for (const auto& [key, mean] : loss_fields(x))
    out.emplace_back(key, cell(mean));
  auto none = validation_report{.loss = NAN, .losses = x.losses};
  if (std::ranges::find(x.losses, accuracy_name, &named_loss::name) != x.losses.end())
    none.losses.push_back({best_accuracy_name});
  for (const auto& [key, mean] :
       loss_fields(validated != nullptr ? *validated : none, "validation_"))
    out.emplace_back(key, validated != nullptr ? cell(mean) : "");
  const row_cells others
      = {{"grad_norm", cell(x.grad_norm)},
         {"learning_rate", cell(x.learning_rate)},
         {"global_batch_size", std::to_string(x.global_batch_size)},
         {"elapsed_ms", cell(x.elapsed_ms)},
         {"tokens_per_second", cell(x.tokens_per_second)},
         {"teraflops_per_second", cell(teraflops(x, settings))},
         {"share_of_matrix_rate", cell(share_of_rate(x, settings))},
         {"params_norm", x.params_norm >= 0 ? cell(x.params_norm) : ""},
         {"num_zeros", x.zero_gradients >= 0 ? std::to_string(x.zero_gradients) : ""},
         {"loss_scale", x.scale.is_used() ? cell(x.scale.value) : ""},
         {"skipped_iterations", std::to_string(x.skipped.iterations)},
         {"nan_iterations", std::to_string(x.skipped.nan)},
         {"state_digest", to_string(x.state)}};
  out.insert(out.end(), others.begin(), others.end());
  return out;
}

/// Empty if the file cannot be read.
std::string first_line(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::string line;
  std::getline(in, line);
  return line;
}

nlohmann::ordered_json json_of(const expert_load& x) {
  return {{"most", x.most}, {"least", x.least}, {"entropy", x.entropy}, {"dropped", x.dropped}};
}

void add_experts(nlohmann::ordered_json& to, const step_report& x, const log_settings& settings) {
  if (x.experts.empty())
    return;
  const auto all = load_of(x.experts);
  to["most_expert_rows"] = all.most;
  to["least_expert_rows"] = all.least;
  to["expert_entropy"] = all.entropy;
  to["dropped_expert_rows"] = all.dropped;
  for (const auto& layer : x.experts) {
    if (settings.expert_layers)
      to["expert_layers"][layer.layer] = json_of(layer);
    if (!layer.counts.empty())
      to["expert_counts"][layer.layer] = layer.counts;
  }
}

class json_log final : public record_sink {
 public:
  json_log(const std::filesystem::path& path, const log_settings& settings)
      : settings_(settings), file_("`watch.log_file`", path, settings.append) {}

  void write(const step_report& x) override { file_.append(json_record(x, settings_) + "\n"); }
  void write(const validation_report& x) override { file_.append(json_record(x) + "\n"); }
  void write(const run_event& x) override { file_.append(json_record(x) + "\n"); }

 private:
  log_settings settings_;
  growing_file file_;
};

std::string header_of(const std::vector<std::string>& columns) {
  return fmt::format("{}{}", fmt::join(columns, ","), line_end);
}

class csv_log final : public record_sink {
 public:
  csv_log(const std::filesystem::path& path, const log_settings& settings)
      : settings_(settings), file_("`watch.csv_file`", path, settings.append) {
    if (file_.is_empty())
      file_.append(csv_header(settings.losses));
    else
      columns_ = columns_in(first_line(path), settings.losses);
  }

  void write(const step_report& x) override {
    file_.append(csv_row(x, nullptr, settings_, columns_), header_of(columns_));
    newest_ = x;
  }

  /// Completes the row of its step, which is the newest: a validation ends before the next step.
  void write(const validation_report& x) override {
    if (x.test || !newest_ || newest_->iteration != x.iteration)
      return;  // no column for test losses, and no row of an earlier process is changed
    file_.replace_newest(csv_row(*newest_, &x, settings_, columns_));
  }

 private:
  log_settings settings_;
  growing_file file_;
  std::vector<std::string> columns_ = csv_columns(settings_.losses);
  std::optional<step_report> newest_;
};

}  // namespace

std::vector<std::pair<std::string, double>> loss_fields(const step_report& x) {
  std::vector<std::pair<std::string, double>> out;
  for (const auto& one : by_name(x.losses, x.loss))
    out.emplace_back(one.key(), one.mean);
  if (!x.losses.empty())
    out.emplace_back("loss", x.loss);
  return out;
}

std::string json_record(const step_report& x, const log_settings& settings) {
  nlohmann::ordered_json out{{"iteration", x.iteration},
                             {"consumed_samples", x.consumed_samples},
                             {"consumed_tokens", x.consumed_tokens}};
  for (const auto& [key, mean] : loss_fields(x))
    out[key] = mean;
  out["grad_norm"] = x.grad_norm;
  out["learning_rate"] = x.learning_rate;
  out["global_batch_size"] = x.global_batch_size;
  out["elapsed_ms"] = x.elapsed_ms;
  out["tokens_per_second"] = x.tokens_per_second;
  if (settings.throughput)
    out["teraflops_per_second"] = teraflops(x, settings);
  if (settings.throughput && settings.matrix_rate > 0)
    out["share_of_matrix_rate"] = share_of_rate(x, settings);
  if (x.params_norm >= 0)
    out["params_norm"] = x.params_norm;
  if (x.zero_gradients >= 0)
    out["num_zeros"] = x.zero_gradients;
  add_experts(out, x, settings);
  if (x.pipeline.ms >= 0) {
    out["pipeline_ms"] = x.pipeline.ms;
    out["planned_pipeline_ms"] = x.pipeline.planned_ms;
    out["bubble"] = x.pipeline.bubble;
    out["planned_bubble"] = x.pipeline.planned_bubble;
    out["action_gap_ms"] = x.pipeline.gap_ms;
    out["hand_off_ms"] = x.pipeline.hand_off_ms;
    out["action_lateness_ms"] = x.pipeline.late_ms;
    out["worst_action_lateness_ms"] = x.pipeline.worst_late_ms;
  }
  if (x.scale.is_used())
    out["loss_scale"] = x.scale.value;
  out["skipped_iterations"] = x.skipped.iterations;
  out["nan_iterations"] = x.skipped.nan;
  out["state_digest"] = to_string(x.state);
  return json_text(out);
}

std::string json_record(const validation_report& x) {
  nlohmann::ordered_json out{{"iteration", x.iteration}};
  for (const auto& [key, mean] : loss_fields(x, x.test ? "test_" : "validation_"))
    out[key] = mean;
  return json_text(out);
}

std::string json_record(const run_event& x) {
  nlohmann::ordered_json out{
      {"iteration", x.iteration}, {"event", x.kind}, {"who", x.who}, {"why", x.why}};
  if (!x.from.empty()) {
    out["state_from"] = x.from;
    out["resumed_from"] = x.resumed;
    out["generation"] = x.generation;
  }
  if (x.verdict.empty() || !x.from.empty())
    out["seconds"] = x.seconds;
  if (!x.verdict.empty())
    out["verdict"] = x.verdict;
  if (!x.from.empty()) {
    out["news_ns"] = x.news_ns;
    out["release_seconds"] = x.release;
    out["respawn_seconds"] = x.respawn;
    out["transfer_seconds"] = x.transfer;
    out["rebuild_seconds"] = x.rebuild;
  }
  return json_text_replacing(out);  // a cause may contain a path, with arbitrary bytes
}

std::vector<std::string> csv_columns(const std::vector<std::string>& losses) {
  step_report x;
  for (const auto& name : losses)
    x.losses.push_back({name});
  std::vector<std::string> out;
  for (auto& [name, text] : cells_of(x, nullptr, {}))
    out.push_back(std::move(name));
  return out;
}

std::string csv_header(const std::vector<std::string>& losses) {
  return header_of(csv_columns(losses));
}

std::string csv_row(const step_report& x,
                    const validation_report* validated,
                    const log_settings& settings,
                    const std::vector<std::string>& columns) {
  const auto cells = cells_of(x, validated, settings);
  std::vector<std::string> out;
  for (const auto& column : columns) {
    const auto found = std::find_if(
        cells.begin(), cells.end(), [&](const auto& one) { return one.first == column; });
    out.push_back(found == cells.end() ? "" : found->second);
  }
  return fmt::format("{}{}", fmt::join(out, ","), line_end);
}

std::vector<std::string> columns_in(std::string_view first_line,
                                    const std::vector<std::string>& losses) {
  while (first_line.ends_with('\n') || first_line.ends_with('\r'))
    first_line.remove_suffix(1);
  std::vector<std::string> out;
  for (std::size_t end = 0; end != std::string_view::npos;) {
    end = first_line.find(',');
    out.emplace_back(first_line.substr(0, end));
    first_line.remove_prefix(end == std::string_view::npos ? first_line.size() : end + 1);
  }
  return out.front() == "iteration" ? out : csv_columns(losses);
}

std::unique_ptr<record_sink> open_json_log(const std::filesystem::path& path,
                                           const log_settings& settings) {
  return std::make_unique<json_log>(path, settings);
}

std::unique_ptr<record_sink> open_csv_log(const std::filesystem::path& path,
                                          const log_settings& settings) {
  return std::make_unique<csv_log>(path, settings);
}

std::int64_t iteration_of_json(std::string_view line) {
  const auto record = json_value_or_discarded(line);
  const auto at = record.is_object() ? record.find("iteration") : record.end();
  const auto value = record.is_object() && at != record.end() ? whole_number_in(*at) : std::nullopt;
  return std::max(value.value_or(-1), std::int64_t{-1});
}

std::int64_t iteration_of_row(std::string_view line) {
  std::int64_t out = -1;
  const auto [end, failure] = std::from_chars(line.data(), line.data() + line.size(), out);
  const bool known = failure == std::errc{} && end != line.data() + line.size() && *end == ',';
  return known ? out : -1;
}

}  // namespace troupe::runtime
