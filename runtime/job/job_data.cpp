#include "runtime/job/job_data.hpp"

#include "runtime/core/error.hpp"
#include "runtime/data/blended_dataset.hpp"
#include "runtime/data/indexed_dataset.hpp"
#include "runtime/data/sft_dataset.hpp"
#include "runtime/family/family_samples.hpp"
#include "runtime/family/model_family.hpp"
#include "runtime/tokenizer/description.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace troupe::runtime {
namespace {

void require_samples(const training_job& job,
                     data_split part,
                     std::uint64_t found,
                     std::uint64_t needed) {
  if (found < needed)
    throw input_error(
        "the {} data have {} samples of {} tokens, and the run needs {}: a blend without weights "
        "passes over its data sets once; give them weights in `data.path`, pass over them in "
        "epochs with `data.order` cyclic, or train for fewer "
        "samples",
        to_string(part),
        found,
        job.training.model.sequence(),
        needed);
}

bool has_labels(const training_job& job,
                const split_matrix& split,
                data_split part,
                const std::filesystem::path& prefix) {
  const conversation_source source(prefix, objects_of(job.data));
  const auto range = split.of(part, source.tokens().sequences());
  for (auto i = range.begin; i < range.end; ++i)
    if (has_label(source, i, job.training.model.sequence()))
      return true;
  return false;
}

}  // namespace

std::shared_ptr<const fill_in_middle> fim_of(const training_job& job) {
  if (!job.data.fim.enabled)
    return nullptr;
  if (job.tokenizer_description.empty())
    throw input_error(
        "`data.fim.enabled` cuts text between characters, and the job names no tokenizer");
  const auto by = std::shared_ptr(named_tokenizer(job.tokenizer_description));
  auto out = std::make_shared<fill_in_middle>(job.data.fim, by, std::uint32_t(job.training.seed));
  if (const auto end = job.data.end_of_document; out->end_of_document() != end)
    throw input_error(
        "`data.fim.eod_token` '{}' does not end the documents of this run, which end with {}: give "
        "the token of this id",
        job.data.fim.eod_token,
        end >= 0 && end < by->vocabulary_size()
            ? fmt::format("'{}' (id {})", by->decode(std::array{end}), end)
            : fmt::format("id {}", end));
  return out;
}

part_of_data part_of(const training_job& job, data_split part, const document_source& data) {
  const auto split = split_for(job.data, part);
  if (!job.training.model.family().samples().splits_documents()) {
    const auto range = split.of(part, data.sequences());
    return {range.size(), range};
  }
  const auto range = split.of(part, data.documents());
  return {range.size(), {data.document_begin(range.begin), data.document_begin(range.end)}};
}

bool has_documents(const training_job& job, data_split part) {
  const auto& samples = job.training.model.family().samples();
  if (has_own_files(job))
    return !samples.files(job.training.model, part).empty();
  if (job.data.mock)
    return split_matrix(job.data.split).share(part).has_value();
  const auto split = split_for(job.data, part);
  const auto& prefixes = blend_for(job.data, part).prefixes;
  return std::any_of(prefixes.begin(), prefixes.end(), [&](const auto& prefix) {
    if (job.data.sft)
      return has_labels(job, split, part, prefix);
    const indexed_dataset tokens(prefix, objects_of(job.data));
    const auto range = part_of(job, part, tokens).sequences;
    for (auto i = range.begin; i < range.end; ++i)
      if (tokens.length(i) > 0)
        return true;
    return false;
  });
}

std::shared_ptr<const sample_dataset> open_samples(const training_job& job,
                                                   data_split part,
                                                   std::uint64_t samples,
                                                   const cancel_token& stop) {
  const auto& model = job.training.model;
  samples_request request{.data = job.data,
                          .part = part,
                          .samples = samples,
                          .evaluation = std::uint64_t(job.watch.eval_batches)
                                        * std::uint64_t(job.training.batch.global),
                          .seed = job.training.seed,
                          .tokenizer = job.tokenizer_description,
                          .stop = stop};
  const auto open = [&] { return model.family().samples().open(model, request); };
  if (job.data.mock || has_own_files(job))
    return open();
  request.fim = fim_of(job);
  const auto& blend = blend_for(job.data, part);
  // A single data set of a part is not a blend, whatever its weight, like in Megatron-LM.
  if (blend.is_single() || (by_part(job.data) && blend.prefixes.size() == 1)) {
    request.prefix = blend.prefixes.front();
    return open();
  }
  const auto out = std::make_shared<blended_dataset>(
      blend, samples, [&](const std::filesystem::path& prefix, std::optional<std::uint64_t> count) {
        request.prefix = prefix;
        request.samples = count;
        try {
          return open();
        } catch (const input_error& failure) {
          throw input_error("'{}' of the blend: {}", prefix.string(), failure.what());
        }
      });
  if (job.data.order == sampling::single)
    require_samples(job, part, out->size(), samples);
  return out;
}

}  // namespace troupe::runtime
