// The flags of `troupe train`, and how they become a job. Names are Megatron-LM's where it has
// the flag.
//
// Every flag of Megatron-LM's GPT-3 345M and Llama-3 8B example scripts is known. It works, or is
// accepted without an effect, or is refused with the reason (flag_table.hpp).

#pragma once

#include "actors/command/asked_settings.hpp"
#include "actors/command/command_line.hpp"
#include "actors/command/hosts.hpp"
#include "actors/command/tokenizer_flags.hpp"
#include "runtime/family/families.hpp"
#include "runtime/job/job.hpp"

#include <any>
#include <functional>
#include <string>
#include <vector>

namespace troupe::command {

/// Megatron-LM's defaults.
inline runtime::watch_settings megatron_watch() {
  runtime::watch_settings out;
  out.log_interval = 100;
  out.eval_interval = 1000;
  out.eval_batches = 100;
  return out;
}

/// The flags as written on the command line, without derived values: members of the job, and the
/// settings of the command line only, from which `resolve` derives members of the job.
struct training_flags : asked_settings {
  explicit training_flags(const runtime::model_family& of = runtime::default_family())
      : family(&of), model(of.asked()) {}

  runtime::training_job job = {.watch = megatron_watch()};
  /// The settings whose flags were given (command_line::notes).
  runtime::given_settings given;
  const runtime::model_family* family;
  std::any model;  ///< the family's settings as written
  tokenizer_flags tokenizer;
  host_flags hosts;
  std::vector<launched_host> launched;  ///< no flag: of `hosts.nodes`, in order; empty: no launch
};

/// Declares all flags of training. Parsing writes to `to`, which must outlive `line`.
void declare(command_line& line, training_flags& to);

/// Turns a --load of a Hugging Face folder into --load-hf, and takes the tokenizer from that folder
/// unless flags name another one. Idempotent.
void recognise_folders(training_flags& flags);

/// Fills in every default. Throws one usage_error with all missing and contradictory flags, and
/// input_error for files that cannot be read. Reports each flag at most once.
runtime::training_job resolve(const training_flags& flags);

/// A sentence for each missing part of a job, and the reason if the flags choose no tokenizer. Does
/// not check other contradictions.
std::vector<std::string> what_is_missing(const training_flags& flags);

/// Fills in the values that `resolve` chose for flags that were not given (threads, layout, batch,
/// shape), so that the kept settings give the same job on another machine.
void write_back(const runtime::training_job& job, training_flags& flags);

/// The settings that a run keeps as its configuration, after write_back. Leaves out the settings of
/// one start: flags with `once`, planted faults, hosts, and a --load that became --load-hf. Models
/// of the Hugging Face Hub have their commit.
std::vector<setting> kept_settings(const command_line& line, const training_flags& flags);

/// Flags of the settings that a model of the family needs, for a help: "--num-layers and
/// --seq-length, or --load-hf DIR; ", and "--num-layers 2 --seq-length 64 ".
struct needed_flags {
  std::string names, example;
};
needed_flags needed_by(const runtime::model_family& family, const command_line& line);

/// The job of `troupe train FAMILY WORDS`: declares, parses and resolves its flags.
runtime::training_job training_job_from(const std::vector<std::string>& words,
                                        const runtime::model_family& family
                                        = runtime::default_family());

}  // namespace troupe::command
