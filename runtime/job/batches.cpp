#include "runtime/job/batches.hpp"

#include "runtime/core/error.hpp"
#include "runtime/family/family_samples.hpp"
#include "runtime/family/model_family.hpp"
#include "runtime/model/liveness.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace troupe::runtime {
namespace {

/// The name of the first unit that reads this tensor of the micro-batch.
std::string first_reader(const model_spec& model, const std::string& name) {
  const auto is_read_up_to = [&](std::int64_t unit) {
    const auto read = flow_of(model, {0, unit + 1}).batch;
    return std::ranges::find(read, name) != read.end();
  };
  std::int64_t first = 0, last = std::int64_t(model.units.size()) - 1;
  while (first < last) {
    const auto middle = (first + last) / 2;
    if (is_read_up_to(middle))
      last = middle;
    else
      first = middle + 1;
  }
  return model.units[std::size_t(first)].name;
}

/// "'tokens' i32 (6), 'patches' f32 (4, 8), documents of 'tokens'"
std::string described(const batch_schema& schema) {
  std::string out;
  for (const auto& x : schema.tensors)
    out += fmt::format(
        "{}'{}' {} {}", out.empty() ? "" : ", ", x.name, to_string(x.type), to_string(x.extents));
  for (const auto& [borders, of] : schema.borders())
    out += fmt::format(", {} of '{}'", borders, of);
  return out;
}

std::string wrong_tensor(const tensor_schema& x) {
  if (x.name == "samples" || is_document_border(x.name))
    return fmt::format("'{}' is a name of the micro-batch's own tensor: rename it", x.name);
  if (x.extents.rank() > 3)
    return fmt::format(
        "'{}' has extents {} in a sample: give at most three", x.name, to_string(x.extents));
  if (std::ranges::any_of(x.extents, [](auto extent) { return extent < 1; }))
    return fmt::format(
        "'{}' has extents {} in a sample: give at least 1", x.name, to_string(x.extents));
  if (x.rows < -1 || x.rows >= x.extents.rank())
    return fmt::format("axis {} of '{}' counts its positions, but it has extents {}",
                       x.rows,
                       x.name,
                       to_string(x.extents));
  return {};
}

bool is_positions(const tensor_schema* x) {
  return x != nullptr && x->type == dtype::i32 && x->extents.rank() == 1 && x->rows == 0;
}

/// Describes the first tensor that no micro-batch can have, or that the model cannot read as
/// positions; empty: none. `reads`: the names that the model reads, all of them in the schema.
std::string wrong_schema(const batch_schema& schema,
                         const model_spec& model,
                         const std::vector<std::string>& reads) {
  const auto is_read
      = [&](const auto& name) { return std::ranges::find(reads, name) != reads.end(); };
  for (const auto& x : schema.tensors) {
    if (auto wrong = wrong_tensor(x); !wrong.empty())
      return wrong;
    if (schema.find(x.name) != &x)
      return fmt::format("two tensors have the name '{}': rename one", x.name);
  }
  for (const auto& stream : model.streams)
    if (is_read(stream.positions) && !is_positions(schema.find(stream.positions)))
      return fmt::format(
          "'{}' has the positions of stream '{}': give it type i32, one extent and rows 0",
          stream.positions,
          stream.name);
  for (const auto& [borders, of] : schema.borders()) {
    const auto* const divided = schema.find(of);
    if (divided == nullptr || divided->rows < 0)
      return fmt::format("documents divide the rows of '{}', but it has none", of);
    for (const auto& stream : model.streams)
      if (is_read(borders) && documents_of(stream) == borders
          && schema.rows_of(of) != schema.rows_of(stream.positions))
        return fmt::format(
            "documents divide the {} rows of '{}', but attention has the {} rows of '{}'",
            schema.rows_of(of),
            of,
            schema.rows_of(stream.positions),
            stream.positions);
  }
  return {};
}

}  // namespace

batch_schema schema_of(const training_job& job) {
  const auto& model = job.training.model;
  return model.family().samples().schema(model, job.data);
}

void require_tensors(const training_job& job, const batch_schema& data) {
  const auto model = spec_of(job.training);
  const auto reads = flow_of(model, all_of(model)).batch;
  for (const auto& name : reads)
    if (!data.gives(name) && !is_document_border(name))
      throw input_error(
          "the model's unit '{}' reads '{}' of each micro-batch, but the data have only {}; train "
          "it on data of its family",
          first_reader(model, name),
          name,
          names_of(data));
  if (const auto wrong = wrong_schema(data, model, reads); !wrong.empty())
    throw input_error("the schema of the data is wrong: {}", wrong);
  if (const auto expected = schema_of(job); data != expected)
    throw input_error("the data have {}, but the job is planned for {}; use data of its family",
                      described(data),
                      described(expected));
}

void validate_rows(const training_job& job,
                   const model_spec& model,
                   const batch_schema& schema,
                   std::vector<std::string>& wrong) {
  const auto& batch = job.training.batch;
  const auto reads = flow_of(model, all_of(model)).batch;
  for (const auto& stream : model.streams) {
    if (!job.layout.sequence_parallel || std::ranges::find(reads, stream.positions) == reads.end())
      continue;
    const auto rows = schema.rows_of(stream.positions);
    if (batch.micro * rows % job.layout.tensor != 0)
      wrong.push_back(
          fmt::format("`layout.sequence_parallel` shards `batch.micro` {} x {} rows of stream '{}' "
                      "over `layout.tensor` {}, which does not divide them",
                      batch.micro,
                      rows,
                      stream.name,
                      job.layout.tensor));
  }
  const auto& last = model.stream_of(model.units.back().stream);
  if (const auto rows = schema.rows_of(last.positions);
      job.training.per_token_loss && rows != model.sequence)
    wrong.push_back(
        fmt::format("`per_token_loss` needs a first loss over the {} rows of `model.sequence`, but "
                    "the last stream '{}' has {}",
                    model.sequence,
                    last.name,
                    rows));
}

void validate_batches(const training_job& job, std::vector<std::string>& wrong) {
  try {
    const auto schema = schema_of(job);
    require_tensors(job, schema);
    validate_rows(job, spec_of(job.training), schema, wrong);
  } catch (const input_error& failure) {
    wrong.emplace_back(failure.what());
  }
}

}  // namespace troupe::runtime
