// The identity of a job: everything that decides the bits of a run, as JSON text.

#include "runtime/core/error.hpp"
#include "runtime/core/hash.hpp"
#include "runtime/core/json_bytes.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/core/setting.hpp"
#include "runtime/device/backend_kind.hpp"
#include "runtime/job/build.hpp"
#include "runtime/job/device_setup.hpp"
#include "runtime/job/job.hpp"
#include "runtime/job/job_data.hpp"
#include "runtime/job/pipeline.hpp"
#include "runtime/model/stages.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <type_traits>
#include <utility>

namespace troupe::runtime {
namespace {

using nlohmann::json;

/// The settings that decide bits, as their rows say. Lists are left to `describe` of their struct.
template <describable Value>
json described(const Value& x) {
  if constexpr (std::is_enum_v<Value>) {
    return to_string(x);
  } else if constexpr (has_fields<Value>) {
    auto out = json::object();
    for_each_field<Value>([&]<class Member>(const setting_row<Value, Member>& row) {
      if constexpr (describable<Member>)
        if (row.decides_bits != nullptr && row.decides_bits(x))
          out[row.name] = described(x.*row.member);
    });
    return out;
  } else {
    return x;
  }
}

json describe(const batch_schedule& x) {
  auto out = described(x);
  out["ramp"] = {x.ramp_start, x.ramp_increment, x.ramp_samples};
  for (const auto& step : x.steps)
    out["steps"].push_back({step.from, step.size});
  return out;
}

json describe(const rate_schedule& x) {
  auto out = described(x);
  if (x.warmup == std::floor(x.warmup) && x.warmup < 1e15)
    out["warmup"] = std::uint64_t(x.warmup);  // without a decimal point
  return out;
}

json describe(const std::vector<rate_change>& all) {
  auto out = json::array();
  for (std::size_t i = 0; i < all.size(); ++i)
    if (i + 1 == all.size() || all[i + 1].step != all[i].step)  // the last change of a step counts
      out.push_back(json{{"step", all[i].step}, {"factor", all[i].factor}});
  return out;
}

/// Described as if each replica had its own workers: computing several in turn gives the same bits,
/// unless the row `replicas_per_worker` decides.
json describe(const layout_settings& x, const unit_letters& letters) {
  auto out = described(x);
  out["world"] = std::int64_t{x.world} * x.replicas_per_worker;
  if (!x.chunks.empty())
    out["stages"] = to_text(x.chunks, letters);
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
  out["optimizer"] = described(job.training.optimizer);
  out["rate"] = job.training.rate_of.at ? json{{"own", job.training.rate_of.name}}
                                        : describe(job.training.rate);
  out["batch"] = describe(job.training.batch);
  out["data"] = json_value(identity_of(job.data));
  if (has_own_files(job))
    out["data"]["files_xxh3"] = digest_of_files(job);
  out["data"]["train_iterations"] = job.train_iterations;  // decides the order of samples
  if (!job.tokenizer_description.empty()) {
    out["tokenizer"] = json_value(job.tokenizer_description);
    for (const auto* where : {"vocab_file", "merge_file", "tokenizer_file"})
      out["tokenizer"].erase(where);  // files may move; the fingerprint identifies their content
  }
  out["layout"] = describe(job.layout, letters_of(job.training));
  if (auto sums = gradient_sums(job); !sums.empty())
    out["layout"]["gradient_sums"] = std::move(sums);
  if (job.training.per_token_loss)
    out["per_token_loss"] = true;
  if (const auto& from = job.training.expert_choices.replay; !from.empty())
    // Processes may have other working directories.
    out["expert_choices"]
        = {{"replay", text_or_bytes(std::filesystem::absolute(from).lexically_normal().string())}};
  out["precision"] = to_string(job.training.precision);
  if (job.training.precision == dtype::f16)
    out["loss_scale"] = described(job.training.scaling);
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
