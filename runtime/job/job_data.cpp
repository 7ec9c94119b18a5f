#include "runtime/job/job_data.hpp"

#include "runtime/core/counted.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/hash.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/core/log.hpp"
#include "runtime/core/shortened.hpp"
#include "runtime/data/blended_dataset.hpp"
#include "runtime/data/dataset_manifest.hpp"
#include "runtime/data/fill_in_middle.hpp"
#include "runtime/data/gpt_dataset.hpp"
#include "runtime/data/indexed_dataset.hpp"
#include "runtime/data/mock_dataset.hpp"
#include "runtime/data/sft_dataset.hpp"
#include "runtime/family/model_family.hpp"
#include "runtime/file/file.hpp"
#include "runtime/tokenizer/description.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

namespace troupe::runtime {
namespace {

using nlohmann::json;

bool by_part(const data_settings& data) {
  return !data.train_path.empty() || !data.valid_path.empty() || !data.test_path.empty();
}

const data_blend& blend_for(const data_settings& data, data_split part) {
  if (!by_part(data))
    return data.path;
  return part == data_split::train   ? data.train_path
         : part == data_split::valid ? data.valid_path
                                     : data.test_path;
}

split_matrix split_for(const data_settings& data, data_split part) {
  if (!by_part(data))
    return split_matrix(data.split);
  return split_matrix(part == data_split::train   ? "1,0,0"
                      : part == data_split::valid ? "0,1,0"
                                                  : "0,0,1");
}

object_access objects_of(const data_settings& data) {
  return {.store = data.objects, .cache = data.object_cache};
}

json identity_of_set(const std::filesystem::path& prefix, const object_access& objects) {
  const mapped_file index = open_index(idx_path(prefix), objects);
  json out = {{"index_xxh3", to_string(digester().add(index.text()).result())}};
  index.require_intact();
  out["bytes"] = open_bytes(bin_path(prefix), objects)->size();
  return out;
}

std::string digest_of(const byte_source& x) {
  constexpr std::uint64_t piece = 1 << 20;
  digester out;
  std::vector<std::byte> scratch;
  for (std::uint64_t at = 0; at < x.size(); at += piece) {
    const auto bytes = x.bytes(at, std::size_t(std::min(piece, x.size() - at)), scratch);
    out.add(bytes.data(), bytes.size());
  }
  x.require_intact();
  return to_string(out.result());
}

/// With `sft` also digests the answers: conversations of equal lengths may have different answers.
json identity_of_set(const std::filesystem::path& prefix, bool sft, const object_access& objects) {
  auto out = identity_of_set(prefix, objects);
  if (sft)
    out["answers_xxh3"] = digest_of(*open_bytes(bin_path(answers_prefix(prefix)), objects));
  return out;
}

json identity_of_blend(const data_blend& x, bool sft, const object_access& objects) {
  auto out = json::array();
  for (std::size_t d = 0; d < x.prefixes.size(); ++d) {
    out.push_back(identity_of_set(x.prefixes[d], sft, objects));
    if (!x.weights.empty())
      out.back()["weight"] = x.weights[d];
  }
  return out;
}

bool is_single(const data_blend& x) {
  return x.prefixes.size() == 1 && x.weights.empty();
}

gpt_dataset_options options_for(const training_job& job,
                                std::optional<std::uint64_t> samples,
                                std::shared_ptr<const fill_in_middle> fim,
                                const cancel_token& stop) {
  return {.sequence_length = job.training.model.sequence(),
          .samples = samples,
          .seed = std::uint32_t(job.training.seed),
          .vocabulary = job.training.model.vocabulary(),
          .end_of_document = job.data.end_of_document,
          .eod_mask_loss = job.data.eod_mask_loss,
          .reset_position_ids = job.data.reset_position_ids,
          .reset_attention_mask = job.data.reset_attention_mask,
          .cache = job.data.cache,
          .fim = std::move(fim),
          .stop = stop};
}

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

/// Null: samples are not rearranged.
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

/// "; 'PREFIX' was written before 4 tokens were added to the tokenizer"
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

/// "; 3 conversations are longer than 64 tokens and cut there"
std::string cut_text(const data_settings& data, std::int64_t length) {
  std::int64_t cut = 0, lost = 0;
  for (const auto& prefix : prefixes_of(data)) {
    const conversation_source source(prefix, objects_of(data));
    for (std::int64_t i = 0; i < source.tokens().sequences(); ++i)
      if (source.tokens().length(i) > length) {
        ++cut;
        lost += has_label(source, i, length) ? 0 : 1;
      }
  }
  if (lost > 0)
    log_warning(
        "{} whole answer beyond the first {} and {} nothing: give a longer `model.sequence`",
        counted(lost, "conversation has its", "conversations have their"),
        counted(length, "token"),
        lost == 1 ? "teaches" : "teach");
  return cut > 0 ? fmt::format("; {} longer than {} and cut there",
                               counted(cut, "conversation is", "conversations are"),
                               counted(length, "token"))
                 : "";
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

std::shared_ptr<const sft_dataset> open_conversations(const training_job& job,
                                                      data_split part,
                                                      const std::filesystem::path& prefix,
                                                      std::optional<std::uint64_t> samples,
                                                      const cancel_token& stop) {
  return std::make_shared<sft_dataset>(
      std::make_shared<conversation_source>(prefix, objects_of(job.data)),
      split_for(job.data, part),
      part,
      sft_dataset_options{.sequence_length = job.training.model.sequence(),
                          .samples = samples,
                          .seed = std::uint32_t(job.training.seed),
                          .vocabulary = job.training.model.vocabulary(),
                          .stop = stop});
}

/// Tokens of the samples of one epoch of conversations.
struct packed_tokens {
  std::int64_t all = 0, padding = 0;
};

packed_tokens packed_epoch(const training_job& job) {
  packed_tokens out;
  for (const auto& prefix : blend_for(job.data, data_split::train).prefixes) {
    const auto epoch = open_conversations(job, data_split::train, prefix, {}, {});
    out.padding += epoch->padding();
    out.all += std::int64_t(epoch->size()) * epoch->sequence_length();
  }
  return out;
}

/// "; of the samples of an epoch 4.2 % is padding"
std::string padding_text(const packed_tokens& x) {
  return fmt::format("; of the samples of an epoch {:.1f} % is padding",
                     100 * double(x.padding) / double(std::max<std::int64_t>(x.all, 1)));
}

std::shared_ptr<const sample_dataset> open_set(const training_job& job,
                                               data_split part,
                                               const std::filesystem::path& prefix,
                                               std::optional<std::uint64_t> samples,
                                               const std::shared_ptr<const fill_in_middle>& fim,
                                               const cancel_token& stop) {
  if (job.data.sft)
    return open_conversations(job, part, prefix, samples, stop);
  return std::make_shared<gpt_dataset>(
      std::make_shared<indexed_dataset>(prefix, objects_of(job.data)),
      split_for(job.data, part),
      part,
      options_for(job, samples, fim, stop));
}

/// Null: the samples of the job are cut from documents.
std::shared_ptr<const sample_dataset> made_up_by_family(const training_job& job,
                                                        data_split part,
                                                        std::uint64_t samples) {
  const auto& model = job.training.model;
  return job.data.mock ? model.family().made_up_samples(model, part, samples, job.training.seed)
                       : nullptr;
}

}  // namespace

void validate_data(const training_job& job,
                   const unknown_parts& unknown,
                   std::vector<std::string>& wrong) {
  const auto& data = job.data;
  const int said = int(data.mock) + int(!data.path.empty()) + int(by_part(data));
  if (said == 0 && !unknown.data)
    wrong.emplace_back("the training data is missing: give `data.path` PREFIX, or `data.mock`");
  else if (said > 1)
    wrong.emplace_back(
        data.mock ? "`data.path` and `data.mock` both give the training data: leave one out"
                  : "`data.path` and `data.train_path` both give the training data: "
                    "leave one out");
  if (by_part(data) && data.train_path.empty() && !unknown.data)
    wrong.emplace_back(
        "`data.valid_path` and `data.test_path` need `data.train_path`: give the training data");
  if (data.sft)
    validate_sft(data, wrong);
  else
    for (const auto& prefix : prefixes_of(data))
      collect(wrong, [&] { indexed_dataset(prefix, objects_of(data)); });
  if (data.fim.enabled)
    validate_fim(job, unknown, wrong);
  if (data.end_of_document < 0 && !unknown.tokenizer
      && (data.mock || data.eod_mask_loss || data.reset_position_ids || data.reset_attention_mask))
    wrong.emplace_back(
        "`data.mock`, `data.eod_mask_loss`, `data.reset_position_ids` and "
        "`data.reset_attention_mask` need a token that ends documents, and the tokenizer names "
        "none: put a tokenizer_config.json with its \"eos_token\" beside its tokenizer.json");
  collect(wrong, [&] {
    if (!split_matrix(data.split).share(data_split::train))
      throw input_error("`data.split` {} leaves nothing to train on: its first share must not be 0",
                        data.split);
  });
}

json identity_of(const fim_settings& x) {
  return {{"enabled", true},
          {"rate", x.rate},
          {"spm_rate", x.spm_rate},
          {"split_sample", x.split_sample},
          {"fragment_rate", x.fragment_rate},
          {"no_prefix", x.no_prefix},
          {"prefix_token", x.prefix_token},
          {"middle_token", x.middle_token},
          {"suffix_token", x.suffix_token},
          {"pad_token", x.pad_token},
          {"eod_token", x.eod_token}};
}

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

std::string identity_of(const data_settings& x) {
  json out = {{"mock", x.mock},
              {"split", x.split},
              {"eod_mask_loss", x.eod_mask_loss},
              {"reset_position_ids", x.reset_position_ids}};
  if (x.order != sampling::single)
    out["order"] = to_string(x.order);
  if (x.reset_attention_mask)
    out["reset_attention_mask"] = true;
  if (x.sft)
    out["sft"] = true;
  if (x.fim.enabled)
    out["fim"] = identity_of(x.fim);
  if (is_single(x.path))
    out.update(identity_of_set(x.path.prefixes.front(), x.sft, objects_of(x)));
  else if (!x.path.empty())
    out["blend"] = identity_of_blend(x.path, x.sft, objects_of(x));
  if (!x.train_path.empty())
    out["train"] = identity_of_blend(x.train_path, x.sft, objects_of(x));
  return json_text(out);
}

std::vector<std::filesystem::path> prefixes_of(const data_settings& data) {
  std::vector<std::filesystem::path> out;
  for (const auto* blend : {&data.path, &data.train_path, &data.valid_path, &data.test_path})
    out.insert(out.end(), blend->prefixes.begin(), blend->prefixes.end());
  return out;
}

std::string data_text(const training_job& job, std::uint64_t samples) {
  if (made_up_by_family(job, data_split::train, samples))
    return fmt::format("{} made up for {}",
                       counted(std::int64_t(samples), "training sample"),
                       job.training.model.family().title());
  std::int64_t tokens = 0, train = 0, valid = 0, test = 0;
  const auto add = [&](const token_source& source, data_split part, std::int64_t& documents) {
    const auto range = split_for(job.data, part).of(part, source.sequences());
    documents += std::int64_t(range.size());
    if (part == data_split::train)
      for (auto i = range.begin; i < range.end; ++i)
        tokens += source.length(i);
  };
  for (const auto& [part, documents] : {std::pair(data_split::train, &train),
                                        {data_split::valid, &valid},
                                        {data_split::test, &test}}) {
    if (job.data.mock)
      add(mock_dataset(job.training.model.vocabulary(), job.data.end_of_document),
          part,
          *documents);
    for (const auto& prefix : blend_for(job.data, part).prefixes)
      add(indexed_dataset(prefix, objects_of(job.data)), part, *documents);
  }
  const auto length = job.training.model.sequence();
  const auto sets = blend_for(job.data, data_split::train).prefixes.size();
  const auto packed = job.data.sft ? packed_epoch(job) : packed_tokens{.all = tokens};
  return fmt::format(
      "{} of {}: {:.3g} epochs of {} in {}{}; {} for validation, {} for the test{}{}{}",
      counted(std::int64_t(samples), "training sample"),
      counted(length, "token"),
      double(samples) * double(length) / double(std::max<std::int64_t>(packed.all, 1)),
      counted(tokens, "token"),
      counted(train, job.data.sft ? "conversation" : "document"),
      sets > 1 ? fmt::format(" of {} data sets", sets) : "",
      valid,
      test,
      job.data.sft ? cut_text(job.data, length) + padding_text(packed) : "",
      job.data.fim.enabled
          ? fmt::format("; to fill in the middle at a rate of {}", job.data.fim.rate)
          : "",
      added_tokens_text(job));
}

bool has_documents(const training_job& job, data_split part) {
  if (job.data.mock)
    return split_matrix(job.data.split).share(part).has_value();
  const auto split = split_for(job.data, part);
  const auto& prefixes = blend_for(job.data, part).prefixes;
  return std::any_of(prefixes.begin(), prefixes.end(), [&](const auto& prefix) {
    if (job.data.sft)
      return has_labels(job, split, part, prefix);
    const indexed_dataset tokens(prefix, objects_of(job.data));
    const auto range = split.of(part, tokens.sequences());
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
  if (auto own = made_up_by_family(job, part, samples))
    return own;
  if (job.data.mock)
    return std::make_shared<gpt_dataset>(
        std::make_shared<mock_dataset>(job.training.model.vocabulary(), job.data.end_of_document),
        split_for(job.data, part),
        part,
        options_for(job, samples, nullptr, stop));
  const auto& blend = blend_for(job.data, part);
  const auto fim = fim_of(job);
  // A single data set of a part is not a blend, whatever its weight, like in Megatron-LM.
  if (is_single(blend) || (by_part(job.data) && blend.prefixes.size() == 1))
    return open_set(job, part, blend.prefixes.front(), samples, fim, stop);
  const auto out = std::make_shared<blended_dataset>(
      blend, samples, [&](const std::filesystem::path& prefix, std::optional<std::uint64_t> count) {
        try {
          return open_set(job, part, prefix, count, fim, stop);
        } catch (const input_error& failure) {
          throw input_error("'{}' of the blend: {}", prefix.string(), failure.what());
        }
      });
  if (job.data.order == sampling::single)
    require_samples(job, part, out->size(), samples);
  return out;
}

}  // namespace troupe::runtime
