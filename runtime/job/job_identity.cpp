// The identity of a job: everything that decides the bits of a run, as JSON text.

#include "runtime/core/error.hpp"
#include "runtime/core/hash.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/device/backend_kind.hpp"
#include "runtime/job/build.hpp"
#include "runtime/job/device_setup.hpp"
#include "runtime/job/job.hpp"
#include "runtime/job/job_data.hpp"
#include "runtime/job/pipeline.hpp"
#include "runtime/model/stages.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

namespace troupe::runtime {
namespace {

using nlohmann::json;

json describe(const batch_schedule& x) {
  json out = {{"micro", x.micro},
              {"global", x.global},
              {"data_parallel", x.data_parallel},
              {"ramp", {x.ramp_start, x.ramp_increment, x.ramp_samples}}};
  for (const auto& step : x.steps)
    out["steps"].push_back({step.from, step.size});
  return out;
}

/// Whole numbers without a decimal point.
json count_or_fraction(double x) {
  return x == std::floor(x) && x < 1e15 ? json(std::uint64_t(x)) : json(x);
}

json describe(const rate_schedule& x) {
  json out = {{"maximum", x.maximum},
              {"minimum", x.minimum},
              {"warmup_start", x.warmup_start},
              {"warmup", count_or_fraction(x.warmup)},
              {"decay", x.decay},
              {"style", to_string(x.style)}};
  if (x.style == decay_style::wsd) {
    out["wsd_style"] = to_string(x.end_style);
    out["wsd_decay"] = x.end_decay;
  }
  if (x.decoupled_maximum > 0) {
    out["decoupled_maximum"] = x.decoupled_maximum;
    out["decoupled_minimum"] = x.decoupled_minimum;
  }
  return out;
}

json describe(const muon_settings& x) {
  return {{"momentum", x.momentum},
          {"nesterov", x.nesterov},
          {"split_qkv", x.split_qkv},
          {"scale", to_string(x.scale)},
          {"extra_scale", x.extra_scale},
          {"coefficients", to_string(x.coefficients)},
          {"steps", x.steps},
          {"tensor_mode", to_string(x.tensor_mode)},
          {"others", to_string(x.others)}};
}

/// Only the settings that its rules read. adam has no "kind": it is older than the others.
json describe(const optimizer_settings& x) {
  json out = {{"weight_decay", x.weight_decay}, {"clip", x.clip}};
  const auto uses = [&x](optimizer_kind kind) {
    return x.kind == kind || (x.kind == optimizer_kind::muon && x.muon.others == kind);
  };
  if (uses(optimizer_kind::adam)) {
    out["beta1"] = x.beta1;
    out["beta2"] = x.beta2;
    out["epsilon"] = x.epsilon;
  }
  if (x.kind != optimizer_kind::adam)
    out["kind"] = to_string(x.kind);
  if (x.kind == optimizer_kind::sgd)
    out["sgd_momentum"] = x.sgd_momentum;
  if (uses(optimizer_kind::lion)) {
    out["lion_beta1"] = x.lion_beta1;
    out["lion_beta2"] = x.lion_beta2;
  }
  if (x.kind == optimizer_kind::muon)
    out["muon"] = describe(x.muon);
  if (x.moments_from > 0)
    out["moments_from"] = x.moments_from;
  if (x.weight_decay_style != increase_style::constant) {
    out["weight_decay_style"] = to_string(x.weight_decay_style);
    out["start_weight_decay"] = x.start_weight_decay;
    out["weight_decay_samples"] = x.weight_decay_samples;
  }
  return out;
}

json describe(const std::vector<rate_change>& all) {
  auto out = json::array();
  for (std::size_t i = 0; i < all.size(); ++i)
    if (i + 1 == all.size() || all[i + 1].step != all[i].step)  // the last change of a step counts
      out.push_back(json{{"step", all[i].step}, {"factor", all[i].factor}});
  return out;
}

json describe(const loss_scaling& x) {
  if (x.constant > 0)
    return {{"constant", x.constant}};
  return {{"initial", x.initial},
          {"minimum", x.minimum},
          {"window", x.window},
          {"hysteresis", x.hysteresis}};
}

/// Described as if each replica had its own workers: computing several in turn gives the same bits.
json describe(const layout_settings& x, std::int64_t layers) {
  json out = {{"world", std::int64_t{x.world} * x.replicas_per_worker},
              {"tensor", x.tensor},
              {"pipeline", x.pipeline},
              {"order", x.order},
              {"sequence_parallel", x.sequence_parallel}};
  if (!x.chunks.empty())
    out["stages"] = to_text(x.chunks, letters_of(layers));
  return out;
}

/// A digest of the schedule's order of gradient sums, if that order decides bits; empty otherwise.
std::string gradient_sums(const training_job& job) {
  const auto order
      = pipeline_schedule(job.layout.schedule, job.layout.pipeline, planned_microbatches(job))
            .order_of_sums();
  return order.empty() ? "" : to_string(digester().add(order).result());
}

}  // namespace

std::string with_rate_changes(const std::string& identity, const std::vector<rate_change>& all) {
  if (all.empty())
    return identity;
  auto out = json_value(identity);
  out["rate_changes"] = describe(all);
  return json_text(out);
}

std::vector<rate_change> rate_changes_in(const std::string& identity, const std::string& where) {
  const auto all = json_value_or_discarded(identity);
  std::vector<rate_change> out;
  if (!all.is_object() || !all.contains("rate_changes"))
    return out;
  const auto& changes = all["rate_changes"];
  const auto is_right = [](const json& x) {
    return x.is_object() && x.contains("step") && x["step"].is_number_unsigned()
           && x.contains("factor") && x["factor"].is_number() && x["factor"].get<double>() > 0
           && std::isfinite(x["factor"].get<double>());
  };
  if (!changes.is_array() || !std::ranges::all_of(changes, is_right))
    throw input_error("{}: `rate_changes` is not a list of steps and factors", where);
  for (const auto& x : changes)
    out.push_back({x["step"].get<std::uint64_t>(), x["factor"].get<double>()});
  return out;
}

std::string identity(const training_job& job) {
  json out;
  out["model"] = json_value(to_json(job.training.model));
  if (!job.training.own.name.empty())
    out["extension"] = job.training.own.name;
  out["seed"] = job.training.seed;
  out["optimizer"] = describe(job.training.optimizer);
  out["rate"] = job.training.rate_of.at ? json{{"own", job.training.rate_of.name}}
                                        : describe(job.training.rate);
  out["batch"] = describe(job.training.batch);
  out["data"] = json_value(identity_of(job.data));
  out["data"]["train_iterations"] = job.train_iterations;  // decides the order of samples
  if (!job.tokenizer_description.empty()) {
    out["tokenizer"] = json_value(job.tokenizer_description);
    for (const auto* where : {"vocab_file", "merge_file", "tokenizer_file"})
      out["tokenizer"].erase(where);  // files may move; the fingerprint identifies their content
  }
  out["layout"] = describe(job.layout, job.training.model.layers);
  if (auto sums = gradient_sums(job); !sums.empty())
    out["layout"]["gradient_sums"] = std::move(sums);
  if (job.training.per_token_loss)
    out["per_token_loss"] = true;
  out["precision"] = to_string(job.training.precision);
  if (job.training.precision == dtype::f16)
    out["loss_scale"] = describe(job.training.scaling);
  out["threads_per_worker"] = job.threads_per_worker;
  out["backend"] = to_string(job.backend);
  if (job.backend == backend_kind::cpu)
    out["instruction_set"] = kernels::instruction_set();
  if (job.backend == backend_kind::cuda)
    out["device"] = {{"name", device_identity(job)},
                     {"libraries", library_identity()},
                     {"tf32", job.devices.tf32},
                     {"products", job.devices.measure_products ? "measured" : "first guess"}};
  // Marks runs that have no fixed bits, so that a comparison of identities reports it.
  if (job.devices.nondeterministic)
    out["device"]["bits"] = "up to rounding";
  if (job.devices.exchange == collectives::nccl_fast)
    out["device"]["collectives"] = to_string(job.devices.exchange);
  out["build"] = build_identity();
  return json_text(out);  // keys sorted, no spaces: a manifest gives back the same text
}

}  // namespace troupe::runtime
