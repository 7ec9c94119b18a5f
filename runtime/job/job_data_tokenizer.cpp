#include "runtime/core/counted.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/core/shortened.hpp"
#include "runtime/data/dataset_manifest.hpp"
#include "runtime/job/job_data.hpp"
#include "runtime/tokenizer/description.hpp"

#include <nlohmann/json.hpp>

namespace troupe::runtime {
namespace {

using nlohmann::json;

[[noreturn]] void refuse_description(const training_job& job) {
  throw input_error(
      "cannot use the job's description of its tokenizer, '{}': \"type\" and \"fingerprint\" "
      "must be texts, \"vocabulary_size\" a whole number; name the tokenizer by its files again",
      shortened(job.tokenizer_description, 200));
}

/// Empty if the job has no fingerprint of its tokenizer.
std::optional<dataset_manifest> tokenizer_of(const training_job& job) {
  const auto from = json_value_or_discarded(job.tokenizer_description);
  if (!from.is_object() || !from.contains("fingerprint"))
    return std::nullopt;
  try {
    const auto known = from.find("vocabulary_size");
    const auto vocabulary = known == from.end() ? 0 : whole_number_in(*known);
    if (!vocabulary)
      refuse_description(job);
    return dataset_manifest{.tokenizer = from.value("type", ""),
                            .fingerprint = from.at("fingerprint"),
                            .vocabulary = *vocabulary,
                            .end_of_document = job.data.end_of_document};
  } catch (const json::exception&) {
    refuse_description(job);
  }
}

/// Number of tokens that the job's tokenizer adds to the one that wrote the data set, if all ids of
/// the data set keep their meaning; nothing otherwise.
std::optional<std::int64_t> tokens_added_to(const dataset_manifest& before,
                                            const dataset_manifest& ours,
                                            const training_job& job) {
  const auto more = ours.vocabulary - before.vocabulary;
  if (before.vocabulary < 1 || more < 1 || before.end_of_document != ours.end_of_document)
    return std::nullopt;
  const auto by = named_tokenizer(job.tokenizer_description);
  const auto found = by->fingerprint_before_adding(std::int32_t(before.vocabulary));
  return found && to_string(*found) == before.fingerprint ? std::optional(more) : std::nullopt;
}

}  // namespace

void validate_tokenizer_of_data(const training_job& job, std::vector<std::string>& wrong) {
  std::optional<dataset_manifest> ours;
  collect(wrong, [&] { ours = tokenizer_of(job); });
  if (!ours)
    return;
  for (const auto& prefix : prefixes_of(job.data))
    collect(wrong, [&] {
      const auto made_by = read_manifest(prefix, objects_of(job.data));
      if (made_by && have_other_ids(*made_by, *ours) && !tokens_added_to(*made_by, *ours, job))
        throw input_error(
            "the data set '{}' was written by another tokenizer than this run's: by a {}, and this "
            "run has a {}; give the tokenizer that wrote it, or write it again with this one. If "
            "the same ids mean the same in both, remove '{}', which records the tokenizer",
            prefix.string(),
            to_text(*made_by),
            to_text(*ours),
            manifest_path(prefix).string());
    });
}

std::string added_tokens_text(const training_job& job) {
  std::string out;
  if (const auto ours = tokenizer_of(job))
    for (const auto& prefix : prefixes_of(job.data))
      if (const auto made_by = read_manifest(prefix, objects_of(job.data));
          made_by && have_other_ids(*made_by, *ours))
        if (const auto more = tokens_added_to(*made_by, *ours, job))
          out += fmt::format("; '{}' was written before {} added to the tokenizer",
                             prefix.string(),
                             counted(*more, "token was", "tokens were"));
  return out;
}

}  // namespace troupe::runtime
