// Reads labelled texts for fine-tuning, as Megatron-LM's tasks/glue and tasks/race.
//
//   mnli   tab-separated, one header line: texts in columns 8 and 9, from 0, the label in the last.
//          A header of 10 columns: a test file, without labels
//   qqp    tab-separated, one header line: texts in columns 3 and 4, the label in 5 of 6. A header
//          of 3 columns: a test file, with texts in 1 and 2
//   race   a folder of *.txt, or one file; each line is a JSON object with "article", "questions",
//          "options" (four each) and "answers" ("A" to "D"). Files are read in the order of names
//   csv    commas and quotes as in RFC 4180, one header line with the columns "label", "text" (or
//          "text_a") and, for pairs, "text_b"; others are ignored
//
// Samples of test files have class 0, as in Megatron-LM. All files are UTF-8.

#pragma once

#include "runtime/data/task_settings.hpp"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::runtime {

struct task_text {
  std::string first;
  std::shared_ptr<const std::string> second = {};  ///< null: none
};

struct task_sample {
  std::vector<task_text> texts;  ///< one, or task_settings::choices()
  std::int32_t label = 0;        ///< class, or the right choice
};

/// The files themselves: those of a folder of RACE in the order of their names. Throws input_error
/// for a folder without any.
std::vector<std::string> task_files(const task_settings& task,
                                    const std::vector<std::string>& said);

/// The samples of task_files, in order. Texts are cleaned. With `warns`, warns of test files and of
/// lines of QQP that Megatron-LM skips. Throws input_error with file and line for anything else.
std::vector<task_sample> read_task(const task_settings& task,
                                   const std::vector<std::string>& files,
                                   bool warns = false);

/// Makes runs of whitespace one space and removes it before a full stop that stands alone, as
/// Megatron-LM does.
std::string clean_text(std::string_view text);

}  // namespace troupe::runtime
