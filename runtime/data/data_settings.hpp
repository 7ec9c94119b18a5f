// The training data of a job: which data sets, and how samples are made of them.

#pragma once

#include "runtime/core/setting.hpp"
#include "runtime/data/blend.hpp"
#include "runtime/data/fill_in_middle.hpp"
#include "runtime/data/sampler.hpp"
#include "runtime/data/split.hpp"
#include "runtime/object/object_store.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace troupe::runtime {

struct data_settings {
  data_blend path;  ///< the documents that `split` divides; empty: none
  /// Alternative to `path`: one blend per part, with all documents of each data set. The test data
  /// are only checked.
  data_blend train_path, valid_path, test_path;
  bool mock = false;
  std::string split = "969,30,1";  ///< for `path` and for mock data
  std::optional<std::filesystem::path> cache;
  std::optional<std::filesystem::path> object_cache;  ///< for the indices of s3:// data sets
  object_store objects;  ///< where s3:// data sets are; belongs to this process
  bool eod_mask_loss = false;
  bool reset_position_ids = false;
  bool reset_attention_mask = false;
  bool sft = false;  ///< data sets are conversations; only answers count in the loss
  fim_settings fim;
  sampling order = sampling::single;  ///< order of samples
  std::int32_t end_of_document = 0;   ///< token id of the tokenizer; -1: it names none

  static constexpr auto changed_at_resume = at_resume::told;
  static constexpr auto fields() {
    using x = data_settings;
    return std::tuple(
        row("path", &x::path),
        row("train_path", &x::train_path),
        row("valid_path", &x::valid_path),
        row("test_path", &x::test_path),
        row("mock", &x::mock)
            .flag({.name = "--mock-data", .help = "Synthetic tokens; needs no files."}),
        row("split", &x::split)
            .flag({.name = "--split",
                   .type = "A,B,C",
                   .default_value = "969,30,1",
                   .help = "Shares of training, validation and test documents."}),
        row("cache", &x::cache)
            .flag({.name = "--data-cache-path",
                   .type = "DIR",
                   .help = "Folder that keeps the sample order, so that it is computed once.",
                   .megatron = "without it the sample order is computed at every start",
                   .resume = at_resume::free}),
        row("object_cache", &x::object_cache)
            .flag(
                {.name = "--object-storage-cache-path",
                 .type = "DIR",
                 .help = "Folder that keeps the indices of data sets in object storage "
                         "(s3://BUCKET/KEY); required for such data.",
                 .megatron = "for s3://; the .bin is read in ranges of 2 MiB, ahead of the samples",
                 .resume = at_resume::free}),
        row("objects", &x::objects).stays(),
        row("eod_mask_loss", &x::eod_mask_loss)
            .flag({.name = "--eod-mask-loss",
                   .help = "Excludes the token after the end of a document from the loss."}),
        row("reset_position_ids", &x::reset_position_ids)
            .flag({.name = "--reset-position-ids",
                   .help = "Restarts learned positions after the end of a document; rotary "
                           "positions continue through the sample."}),
        row("reset_attention_mask", &x::reset_attention_mask)
            .flag({.name = "--reset-attention-mask",
                   .help = "Restricts attention to the token's own document; earlier documents of "
                           "the sample are masked."}),
        row("sft", &x::sft)
            .flag({.name = "--sft",
                   .help = "Supervised fine-tuning on data sets written by `troupe conversations`. "
                           "Packs conversations into samples. Only answers count in the loss; "
                           "attention and positions restart with each conversation.",
                   .megatron = "on data sets written by `troupe conversations`; conversations of "
                               "several lines share a sample"}),
        row("fim", &x::fim),
        row("order", &x::order),
        row("end_of_document", &x::end_of_document));
  }
};

/// True if each part has data sets of its own.
bool by_part(const data_settings& data);

/// The data sets of a part, and the share of their documents that it has.
const data_blend& blend_for(const data_settings& data, data_split part);
split_matrix split_for(const data_settings& data, data_split part);

/// The prefixes of all data sets that the job reads.
std::vector<std::filesystem::path> prefixes_of(const data_settings& data);

object_access objects_of(const data_settings& data);

}  // namespace troupe::runtime
