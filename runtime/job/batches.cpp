#include "runtime/job/batches.hpp"

#include "runtime/core/error.hpp"
#include "runtime/data/token_schema.hpp"
#include "runtime/family/model_family.hpp"
#include "runtime/model/liveness.hpp"

#include <algorithm>

namespace troupe::runtime {
namespace {

/// The name of the first unit that reads this tensor of the micro-batch.
std::string first_reader(const model_spec& model, const std::string& name) {
  const auto reads = [&](std::int64_t unit) {
    const auto found = flow_of(model, {unit, unit + 1}).batch;
    return std::ranges::find(found, name) != found.end();
  };
  std::int64_t unit = 0;
  while (!reads(unit))
    ++unit;
  return model.units[std::size_t(unit)].name;
}

}  // namespace

batch_schema schema_of(const training_job& job) {
  const auto& model = job.training.model;
  const bool documents = job.data.sft || job.data.reset_attention_mask;
  return job.data.mock ? model.family().schema(model, documents)
                       : token_schema(model.sequence(), documents);  // of files
}

void require_tensors(const training_job& job, const batch_schema& data) {
  const auto model = spec_of(job.training);
  for (const auto& name : flow_of(model, all_of(model)).batch)
    if (!data.gives(name) && !is_document_border(name))
      throw input_error(
          "the model's unit '{}' reads '{}' of each micro-batch, but the data have only {}; train "
          "it on data of its family",
          first_reader(model, name),
          name,
          names_of(data));
}

void validate_batches(const training_job& job, std::vector<std::string>& wrong) {
  try {
    require_tensors(job, schema_of(job));
  } catch (const input_error& failure) {
    wrong.emplace_back(failure.what());
  }
}

}  // namespace troupe::runtime
