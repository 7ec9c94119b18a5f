// Arrangements of the forms of BERT and T5: ranks, cuts and schedules with the options of a layout.

#pragma once

#include "runtime/family/bert/bert.hpp"
#include "runtime/family/t5/t5.hpp"
#include "tests/matrix/covering.hpp"
#include "tests/support/family_job.hpp"

#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

namespace troupe::matrix::forms {

enum at : std::size_t { model, TP, cuts, schedule, DP, optimizer, recompute, type };

/// Models have seven or eight units: cuts of a T5 are in the encoder, between the stacks, and in
/// the decoder.
inline const std::vector<std::vector<std::int64_t>>& cuts_of_units() {
  static const std::vector<std::vector<std::int64_t>> all = {{}, {2}, {4}, {6}, {2, 4, 6}};
  return all;
}

constexpr const char* schedules[] = {"1f1b",
                                     "gpipe",
                                     "zb-h1",
                                     "zb-h2",
                                     "dualpipe",
                                     "interleaved",
                                     "looped-bfs",
                                     "izb",
                                     "zb-v",
                                     "v-half",
                                     "v-min",
                                     "dualpipev"};
constexpr int dualpipe = 4, first_of_two_chunks = 5;

inline int stages(const choice& x) {
  return int(cuts_of_units()[std::size_t(x[cuts])].size()) + 1;
}
inline bool has_two_chunks(const choice& x) {
  return x[schedule] >= first_of_two_chunks;
}
inline int pipeline_ranks(const choice& x) {
  return has_two_chunks(x) ? stages(x) / 2 : stages(x);
}

inline bool is_possible(const choice& x) {
  const int data = x[DP] == 1 ? 2 : 1, tensor = x[TP] == 0 ? 1 : 2;
  if (pipeline_ranks(x) * data * tensor > 8)
    return false;
  if (x[schedule] > 0 && stages(x) == 1)
    return false;  // one stage has no schedule
  if (has_two_chunks(x) && stages(x) < 4)
    return false;  // two ranks have two chunks each
  if (x[schedule] == dualpipe && (x[DP] == 2 || x[optimizer] % 2 == 1))
    return false;                        // its copies have their own rules
  return x[optimizer] == 0 || data > 1;  // one rank has nothing to shard or to overlap
}

inline const choice_table& arrangements() {
  static const choice_table all
      = {{{"model", {"bert", "bert-post", "bert-alone", "t5", "t5-v1.0", "t5-v1.1"}},
          {"TP", {"1", "2", "2 rows"}},
          {"cuts", {"none", "2", "4", "6", "2 4 6"}},
          {"schedule", {std::begin(schedules), std::end(schedules)}},
          {"DP", {"1", "2", "2 in turn"}},
          {"optimizer", {"whole", "whole+overlap", "distributed", "distributed+overlap"}},
          {"recompute", {"none", "selective", "full"}},
          {"type", {"f32", "bf16", "f16"}}},
         is_possible};
  return all;
}

/// `form`: pre-norm with both heads, post-norm, or without the head of two sentences.
inline runtime::bert_config bert_of(int form) {
  auto out = runtime::bert_family().smallest(4).as<runtime::bert_config>();
  out.post_norm = form == 1;
  if (form == 2) {
    out.binary_head = false;
    out.types = 0;
  }
  return out;
}

/// The smallest T5 of another form. Its heads are together wider than its channels.
inline runtime::t5_config t5_of(const std::string& form) {
  using config = runtime::t5_config;
  const auto small = runtime::t5_family().smallest(4).as<config>();
  auto out = runtime::t5_form(form);
  for (const auto size : {&config::encoder_layers,
                          &config::decoder_layers,
                          &config::hidden,
                          &config::heads,
                          &config::ffn,
                          &config::encoder_sequence,
                          &config::decoder_sequence,
                          &config::vocabulary,
                          &config::padded_vocabulary,
                          &config::buckets,
                          &config::most_distance})
    out.*size = small.*size;
  out.head_size = 12;
  if (!out.is_relative())
    out.positions = out.encoder_sequence;
  return out;
}

inline runtime::model_description model_of(int which) {
  if (which < 3)
    return bert_of(which);
  return t5_of(which == 3 ? "megatron" : which == 4 ? "v1.0" : "v1.1");
}

inline runtime::training_job job_of(const choice& x) {
  using runtime::dtype;
  const int data = x[DP] == 0 ? 1 : 2, tensor = x[TP] == 0 ? 1 : 2;
  const auto& units = cuts_of_units()[std::size_t(x[cuts])];
  auto job = tests::scheduled_job(x[model] < 3 ? runtime::bert_family() : runtime::t5_family(),
                                  schedules[x[schedule]],
                                  pipeline_ranks(x),
                                  units,
                                  data);
  job.training.model = model_of(x[model]);
  job.layout.chunks = tests::cut_before(job.training.model, units);
  job.layout.tensor = tensor;
  job.layout.world *= tensor;
  job.layout.sequence_parallel = x[TP] == 2;
  job.training.batch.global = 16;
  if (x[schedule] == dualpipe)
    job.training.batch.micro = 1;  // each copy needs as many micro-batches as there are ranks
  job.train_iterations = 6;
  job.training.optimizer.epsilon = 1e-4;  // else tiny gradients move weights by their signs alone
  job.training.precision = x[type] == 0 ? dtype::f32 : x[type] == 1 ? dtype::bf16 : dtype::f16;
  job.training.scaling.initial = 4096;  // no step overflows: a skipped step tests nothing
  if (x[DP] == 2)
    tests::play_in_turn(job, 2);
  job.reduction = {.distributed_optimizer = x[optimizer] > 1,
                   .bucket_size = 256,
                   .overlap_gradients = x[optimizer] % 2 == 1,
                   .overlap_parameters = x[optimizer] == 3,
                   .grain = 16};
  if (x[recompute] == 1)
    job.recompute
        = {.granularity = runtime::recompute_granularity::selective, .feed_forward = true};
  else if (x[recompute] == 2)
    job.recompute.granularity = runtime::recompute_granularity::full;
  return job;
}

}  // namespace troupe::matrix::forms
