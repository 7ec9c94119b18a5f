// The flags of commands that use a trained model.

#pragma once

#include "actors/command/command_line.hpp"
#include "actors/command/tokenizer_flags.hpp"
#include "runtime/inference/loaded_model.hpp"

#include <memory>
#include <string>

namespace troupe::command {

struct model_flags {
  std::filesystem::path load;
  std::filesystem::path tokenizer;  ///< folder with its files; empty: the checkpoint's tokenizer
  std::int64_t threads = 1;
  std::string backend = "cpu";
  bool bf16 = false, fp16 = false;
};

void declare(command_line& line, model_flags& to);

/// Downloads models of the Hugging Face Hub; the flags then name their folders.
void find_hub_models(model_flags& flags);

std::unique_ptr<runtime::loaded_model> load(model_flags flags,
                                            runtime::model_use use = runtime::model_use::continues);

/// Throws usage_error that names the flag unless the model has routers.
void require_experts(const runtime::loaded_model& model, const char* flag);

}  // namespace troupe::command
