// Fine-tuning of an encoder of text: the head of a task and its samples of labelled texts. A family
// has a `task_settings task` among its settings, and the members that task_model reads.
//
//   tokens, positions  (S) i32: one text or pair, [CLS] A [SEP] B [SEP]; with multiple choice one
//                      after the other, S = choices * T, with positions from 0 in each
//   types              (S) i32: 1 for B and the [SEP] after it; with types of tokens
//   classes            (1) i32: the class, or the right choice
//   counted            (1) f32: 0 for samples that only fill the last batch of an evaluation
//
// Each text is a document of its own, and so is its padding.

#pragma once

#include "runtime/data/task_settings.hpp"
#include "runtime/family/config_json.hpp"
#include "runtime/family/family_samples.hpp"
#include "runtime/model/layers/module_spec.hpp"

#include <concepts>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::runtime {

inline constexpr enum_name task_names[] = {{to_string(task_kind::none), int(task_kind::none)},
                                           {to_string(task_kind::mnli), int(task_kind::mnli)},
                                           {to_string(task_kind::qqp), int(task_kind::qqp)},
                                           {to_string(task_kind::race), int(task_kind::race)},
                                           {to_string(task_kind::csv), int(task_kind::csv)}};
constexpr std::span<const enum_name> names_of(task_kind) {
  return task_names;
}

/// The settings of a model that tasks read.
struct task_model {
  task_settings task;
  std::int64_t hidden = 0;    ///< C
  std::int64_t sequence = 0;  ///< T
  bool has_types = false;     ///< its samples have types of tokens
  double dropout = 0, init_std = 0;

  template <class Config>
  requires requires(const Config& x) {
    { x.task } -> std::convertible_to<const task_settings&>;
    x.hidden_dropout;
  }
  task_model(const Config& x)
      : task(x.task),
        hidden(x.hidden),
        sequence(x.sequence),
        has_types(x.types > 0),
        dropout(x.hidden_dropout),
        init_std(x.init_std) {}

  std::int64_t rows() const { return task.choices() * sequence; }
};

inline constexpr std::string_view task_head_prefix = "classification_head.";

/// The head: pooler of the first row of each text, dropout, and a linear layer. Its logits are
/// those of the classes, or one of each choice. Writes "task loss" and, with weight 0, "accuracy".
/// Megatron-LM has the same heads.
using task_head_spec = task_model;

void add(module_builder& to, const task_head_spec& x);
module_traits traits_of(const task_head_spec& x);
module_flops forward_flops(const task_head_spec& x, std::int64_t T);

batch_schema task_schema(const task_model& model);

/// The texts of the part. Training draws an order for each epoch; evaluation keeps that of the
/// files and reads each text once if `from.evaluation` has room. Throws input_error.
std::shared_ptr<const sample_dataset> open_task(const task_model& model,
                                                const samples_request& from);

/// A sentence for each file that cannot be read, and for a tokenizer without [CLS] and [SEP].
std::vector<std::string> wrong_with_task(const task_model& model, const std::string& tokenizer);

/// The functions of family_samples about files. Throw input_error.
std::vector<std::string> files_of_task(const task_settings& task, data_split part);
std::uint64_t samples_of_task(const task_settings& task, data_split part);

/// Those of a family whose settings are a Config.
template <class Config>
class samples_with_tasks : public family_samples {
 public:
  std::vector<std::string> files(const model_description& model, data_split part) const final {
    return files_of_task(model.as<Config>().task, part);
  }
  std::uint64_t samples_in_files(const model_description& model, data_split part) const final {
    return samples_of_task(model.as<Config>().task, part);
  }
  std::int64_t epochs(const model_description& model) const final {
    return model.as<Config>().task.epochs;
  }
};

}  // namespace troupe::runtime
