// Fine-tuning of a BERT: the head of a task and its samples of labelled texts.
//
//   tokens, positions  (S) i32: one text or pair, [CLS] A [SEP] B [SEP]; with multiple choice one
//                      after the other, S = choices * T, with positions from 0 in each
//   types              (S) i32: 1 for B and the [SEP] after it; with types of tokens
//   classes            (1) i32: the class, or the right choice
//   counted            (1) f32: 0 for samples that only fill the last batch of an evaluation
//
// Each text is a document of its own, and so is its padding.

#pragma once

#include "runtime/family/bert/bert_config.hpp"
#include "runtime/family/family_samples.hpp"
#include "runtime/model/layers/module_spec.hpp"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::runtime {

inline constexpr std::string_view task_head_prefix = "classification_head.";

/// Pooler of the first row of each text, dropout, and a linear layer. Its logits are those of the
/// classes, or one of each choice. Writes "task loss" and, with weight 0, "accuracy". Megatron-LM
/// has the same heads.
struct task_head_spec {
  std::int64_t hidden = 0;    ///< C
  std::int64_t sequence = 0;  ///< T
  std::int64_t choices = 1;
  std::int64_t classes = 2;
  double dropout = 0;
  double init_std = 0;
};

void add(module_builder& to, const task_head_spec& x);
module_traits traits_of(const task_head_spec& x);
module_flops forward_flops(const task_head_spec& x, std::int64_t T);

task_head_spec task_head_of(const bert_config& config);

batch_schema task_schema(const bert_config& config);

/// The texts of the part. Training draws an order for each epoch; evaluation keeps that of the
/// files and reads each text once if `from.evaluation` has room. Throws input_error.
std::shared_ptr<const sample_dataset> open_task(const bert_config& config,
                                                const samples_request& from);

/// A sentence for each file that cannot be read, and for a tokenizer without [CLS] and [SEP].
std::vector<std::string> wrong_with_task(const bert_config& config, const std::string& tokenizer);

}  // namespace troupe::runtime
