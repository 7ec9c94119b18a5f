#include "runtime/core/error.hpp"
#include "runtime/data/conversation_files.hpp"
#include "runtime/data/indexed_dataset.hpp"
#include "runtime/family/family_samples.hpp"
#include "runtime/family/model_family.hpp"
#include "runtime/job/job_data.hpp"

#include <utility>

namespace troupe::runtime {
namespace {

void validate_sft(const data_settings& data, std::vector<std::string>& wrong) {
  if (data.mock)
    wrong.emplace_back(
        "`data.sft` needs conversations, and `data.mock` has none: give `data.path`");
  if (data.eod_mask_loss || data.reset_position_ids || data.reset_attention_mask)
    wrong.emplace_back(
        "`data.sft` decides which tokens count in the loss, and restarts positions and attention "
        "at each conversation: leave out `data.eod_mask_loss`, `data.reset_position_ids` and "
        "`data.reset_attention_mask`");
  for (const auto& prefix : prefixes_of(data)) {
    if (prefix.extension() == ".jsonl" || prefix.extension() == ".json")
      wrong.push_back(fmt::format(
          "'{}' is a file of conversations, and training reads the data set that `troupe "
          "conversations` makes from it: give its prefix, which ends in _conversations",
          prefix.string()));
    else
      collect(wrong, [&] { conversation_source(prefix, objects_of(data)); });
  }
}

void validate_fim(const training_job& job,
                  const unknown_parts& unknown,
                  std::vector<std::string>& wrong) {
  const auto before = wrong.size();
  if (job.data.mock)
    wrong.emplace_back(
        "`data.fim.enabled` needs text to cut, and `data.mock` has none: give `data.path`");
  if (job.data.sft)
    wrong.emplace_back("`data.fim.enabled` and `data.sft` are two kinds of samples: leave one out");
  validate_fim(job.data.fim, wrong);
  if (wrong.size() == before && !unknown.tokenizer)
    collect(wrong, [&] { fim_of(job); });
}

/// FAMILY-3.
void refuse_settings_without_effect(const training_job& job, std::vector<std::string>& wrong) {
  const auto& data = job.data;
  const auto& family = job.training.model.family();
  const std::pair<const char*, bool> settings[]
      = {{"data.sft", data.sft},
         {"data.fim.enabled", data.fim.enabled},
         {"data.eod_mask_loss", data.eod_mask_loss},
         {"data.reset_position_ids", data.reset_position_ids},
         {"data.reset_attention_mask", data.reset_attention_mask}};
  for (const auto& [name, is_given] : settings)
    if (is_given && !family.samples().follows(name))
      wrong.push_back(
          fmt::format("`{}` has no effect on samples of {}: leave it out", name, family.title()));
}

}  // namespace

void validate_data(const training_job& job,
                   const unknown_parts& unknown,
                   std::vector<std::string>& wrong) {
  const auto& data = job.data;
  const int said = int(data.mock) + int(!data.path.empty()) + int(by_part(data));
  bool own = false;
  collect(wrong, [&] { own = has_own_files(job); });
  if (own && said > 0)
    wrong.push_back(
        fmt::format("`{}` gives the training data, and so do `data.path`, `data.train_path` and "
                    "`data.mock`: leave one out",
                    job.training.model.family().own_data()));
  if (said == 0 && !own && !unknown.data)
    wrong.emplace_back("the training data is missing: give `data.path` PREFIX, or `data.mock`");
  else if (said > 1)
    wrong.emplace_back(
        data.mock ? "`data.path` and `data.mock` both give the training data: leave one out"
                  : "`data.path` and `data.train_path` both give the training data: "
                    "leave one out");
  if (by_part(data) && data.train_path.empty() && !unknown.data)
    wrong.emplace_back(
        "`data.valid_path` and `data.test_path` need `data.train_path`: give the training data");
  const auto& samples = job.training.model.family().samples();
  refuse_settings_without_effect(job, wrong);
  if (data.sft && samples.follows("data.sft"))
    validate_sft(data, wrong);
  else
    for (const auto& prefix : prefixes_of(data))
      collect(wrong, [&] { indexed_dataset(prefix, objects_of(data)); });
  if (data.fim.enabled && samples.follows("data.fim.enabled"))
    validate_fim(job, unknown, wrong);
  if (!unknown.tokenizer)
    for (auto& sentence : samples.validate(job.training.model, data, job.tokenizer_description))
      wrong.push_back(std::move(sentence));
  collect(wrong, [&] {
    if (!split_matrix(data.split).share(data_split::train))
      throw input_error("`data.split` {} leaves nothing to train on: its first share must not be 0",
                        data.split);
  });
}

}  // namespace troupe::runtime
