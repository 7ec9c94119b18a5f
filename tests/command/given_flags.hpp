// Makes jobs of tests from the text of a command line.

#pragma once

#include "actors/command/flags.hpp"

#include <sstream>
#include <string>
#include <vector>

namespace troupe::tests {

inline std::vector<std::string> words_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> out;
  for (std::string word; in >> word;)
    out.push_back(word);
  return out;
}

/// Flags of a valid run. Appended flags override them, because the last one counts.
inline const std::string small_run
    = "--num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 32 "
      "--micro-batch-size 2 --global-batch-size 16 --train-iters 100 --lr 1e-3 --mock-data "
      "--tokenizer-type NullTokenizer --vocab-size 1000 ";

inline runtime::training_job job_of_flags(const std::string& more = "") {
  return command::training_job_from(words_of(small_run + more));
}

/// The error for these flags; "accepted" if they are valid.
inline std::string refusal_of_flags(const std::string& all) {
  try {
    command::training_job_from(words_of(all));
  } catch (const runtime::error& failure) {
    return failure.what();
  }
  return "accepted";
}

}  // namespace troupe::tests
