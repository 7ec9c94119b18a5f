#include "runtime/job/batches.hpp"

#include "runtime/core/error.hpp"
#include "runtime/family/model_family.hpp"
#include "runtime/model/liveness.hpp"

namespace troupe::runtime {

batch_schema schema_of(const training_job& job) {
  const auto& model = job.training.model;
  return model.family().schema(model, job.data.sft || job.data.reset_attention_mask);
}

void require_tensors(const training_job& job, const batch_schema& data) {
  const auto model = spec_of(job.training);
  const auto units = std::int64_t(model.units.size());
  for (std::int64_t u = 0; u < units; ++u)
    for (const auto& name : flow_of(model, {u, u + 1}).batch)
      if (!data.gives(name) && !is_document_border(name))
        throw input_error(
            "the model's unit '{}' reads '{}' of each micro-batch, but the data have only {}; "
            "train it on data of its family",
            model.units[std::size_t(u)].name,
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
