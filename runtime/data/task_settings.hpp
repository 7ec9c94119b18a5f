// Fine-tuning of an encoder: the task, and its files of labelled texts.

#pragma once

#include "runtime/core/setting.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::runtime {

enum class task_kind : std::uint8_t {
  none,  ///< pre-training
  mnli,  ///< GLUE's MNLI: pairs of sentences, three classes
  qqp,   ///< GLUE's QQP: pairs of questions, two classes
  race,  ///< RACE: questions about a text, each with four answers
  csv,   ///< texts or pairs of texts with classes of one's own
};

constexpr const char* to_string(task_kind x) {
  constexpr const char* names[] = {"none", "mnli", "qqp", "race", "csv"};
  return names[int(x)];
}

struct task_settings {
  task_kind kind = task_kind::none;
  std::vector<std::string> labels;        ///< names of the classes of `csv`, by number
  std::vector<std::string> train, valid;  ///< files; of RACE folders
  std::int64_t epochs = 0;                ///< 0: the length of the run is given otherwise

  friend bool operator==(const task_settings&, const task_settings&) = default;

  bool is_on() const { return kind != task_kind::none; }
  /// Texts of a sample, of which one is right; 1: a sample is one text.
  std::int64_t choices() const { return kind == task_kind::race ? 4 : 1; }
  /// Answers among which the head decides.
  std::int64_t classes() const {
    return kind == task_kind::mnli   ? 3
           : kind == task_kind::qqp  ? 2
           : kind == task_kind::race ? choices()
                                     : std::int64_t(labels.size());
  }

  /// Names of the classes of texts, by number. Choices have none.
  std::vector<std::string> class_names() const {
    return kind == task_kind::mnli
               ? std::vector<std::string>{"contradiction", "entailment", "neutral"}
           : kind == task_kind::qqp ? std::vector<std::string>{"0", "1"}
                                    : labels;
  }

  static constexpr auto fields() {
    using x = task_settings;
    return std::tuple(
        row("kind", &x::kind)
            .own_flag({.name = "--task",
                       .type = "TASK",
                       .help
                       = "Fine-tunes a head for a task instead of pre-training: GLUE's MNLI or "
                         "QQP, RACE, or a CSV file of texts and labels.",
                       .only_given = true,
                       .resume = at_resume::refused})
            .one_of(
                task_kind::none, task_kind::mnli, task_kind::qqp, task_kind::race, task_kind::csv),
        row("labels", &x::labels)
            .own_flag({.name = "--task-labels",
                       .type = "LABEL...",
                       .help = "With --task csv: the labels, in the order of their classes.",
                       .most = 100000,
                       .only_given = true,
                       .resume = at_resume::refused})
            .later()
            .sparse(),
        row("train", &x::train)
            .for_training()
            .own_flag({.name = "--task-train",
                       .type = "FILE...",
                       .help = "Labelled texts to train on; folders for RACE.",
                       .most = 100000,
                       .only_given = true,
                       .resume = at_resume::told})
            .later()
            .sparse(),
        row("valid", &x::valid)
            .for_training()
            .own_flag({.name = "--task-valid",
                       .type = "FILE...",
                       .help = "Labelled texts on which accuracy is measured after each epoch.",
                       .most = 100000,
                       .only_given = true,
                       .resume = at_resume::told})
            .later()
            .sparse(),
        row("epochs", &x::epochs)
            .for_training()
            .own_flag({.name = "--epochs",
                       .unit = "epochs",
                       .help = "With --task: passes over the labelled texts, instead of "
                               "--train-iters. Without --eval-interval and --eval-iters, all "
                               "validation texts are evaluated after each.",
                       .range = whole_range{1, 100000},
                       .only_given = true,
                       .resume = at_resume::told})
            .later()
            .sparse());
  }
};

/// Appends one sentence to `wrong` for each violated rule.
void validate_task(const task_settings& x, std::vector<std::string>& wrong);

}  // namespace troupe::runtime
