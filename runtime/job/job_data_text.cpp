#include "runtime/core/counted.hpp"
#include "runtime/data/indexed_dataset.hpp"
#include "runtime/family/family_samples.hpp"
#include "runtime/family/model_family.hpp"
#include "runtime/job/job_data.hpp"

#include <algorithm>

namespace troupe::runtime {
namespace {

/// Documents of each part, and tokens of the training data.
struct data_counts {
  std::int64_t train = 0, valid = 0, test = 0, tokens = 0;
};

/// `made_up`: null if the data are files.
data_counts counts_of(const training_job& job, const token_source* made_up) {
  data_counts out;
  const auto add = [&out](const token_source& source,
                          data_split part,
                          const part_of_data& its,
                          std::int64_t& documents) {
    documents += its.documents;
    if (part == data_split::train)
      for (auto i = its.sequences.begin; i < its.sequences.end; ++i)
        out.tokens += source.length(i);
  };
  for (const auto& [part, documents] : {std::pair(data_split::train, &out.train),
                                        {data_split::valid, &out.valid},
                                        {data_split::test, &out.test}}) {
    if (made_up != nullptr) {
      const auto range = split_for(job.data, part).of(part, made_up->sequences());
      add(*made_up, part, {range.size(), range}, *documents);
    }
    for (const auto& prefix : blend_for(job.data, part).prefixes) {
      const indexed_dataset source(prefix, objects_of(job.data));
      add(source, part, part_of(job, part, source), *documents);
    }
  }
  return out;
}

}  // namespace

std::string data_text(const training_job& job, std::uint64_t samples) {
  const auto& data = job.data;
  const auto& model = job.training.model;
  const auto& of = model.family().samples();
  if (has_own_files(job)) {
    const auto each = of.samples_in_files(model, data_split::train);
    return fmt::format("{}: {:.2f} epochs of {} in {}; {} for validation",
                       counted(std::int64_t(samples), "training sample"),
                       double(samples) / double(std::max<std::uint64_t>(each, 1)),
                       each,
                       counted(std::int64_t(of.files(model, data_split::train).size()), "file"),
                       of.samples_in_files(model, data_split::valid));
  }
  const auto made_up = data.mock ? of.made_up_documents(model, data) : nullptr;
  if (data.mock && !made_up)
    return fmt::format("{} made up for {}",
                       counted(std::int64_t(samples), "training sample"),
                       model.family().title());
  const auto counts = counts_of(job, made_up.get());
  const auto text = of.describe(
      model, {.data = data, .samples = samples, .seed = job.training.seed}, counts.tokens);
  const auto sets = blend_for(data, data_split::train).prefixes.size();
  return fmt::format(
      "{}{} in {}{}; {} for validation, {} for the test{}{}{}",
      text.before,
      counted(counts.tokens, "token"),
      counted(counts.train, data.sft ? "conversation" : "document"),
      sets > 1 ? fmt::format(" of {} data sets", sets) : "",
      counts.valid,
      counts.test,
      text.after,
      data.fim.enabled ? fmt::format("; to fill in the middle at a rate of {}", data.fim.rate) : "",
      added_tokens_text(job));
}

}  // namespace troupe::runtime
