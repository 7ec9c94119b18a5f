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
data_counts counts_of(const data_settings& data, const token_source* made_up) {
  data_counts out;
  const auto add = [&](const token_source& source, data_split part, std::int64_t& documents) {
    const auto range = split_for(data, part).of(part, source.sequences());
    documents += std::int64_t(range.size());
    if (part == data_split::train)
      for (auto i = range.begin; i < range.end; ++i)
        out.tokens += source.length(i);
  };
  for (const auto& [part, documents] : {std::pair(data_split::train, &out.train),
                                        {data_split::valid, &out.valid},
                                        {data_split::test, &out.test}}) {
    if (made_up != nullptr)
      add(*made_up, part, *documents);
    for (const auto& prefix : blend_for(data, part).prefixes)
      add(indexed_dataset(prefix, objects_of(data)), part, *documents);
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
  const auto counts = counts_of(data, made_up.get());
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
