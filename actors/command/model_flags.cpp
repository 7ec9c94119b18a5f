#include "actors/command/model_flags.hpp"

#include "actors/command/hub_models.hpp"
#include "runtime/device/backend_kind.hpp"
#include "runtime/family/model_family.hpp"

#include <utility>

namespace troupe::command {

void declare(command_line& line, model_flags& to) {
  line.group("Model");
  line.value("--load",
             "DIR",
             "The --save folder of a training run (its latest checkpoint), one checkpoint in it, "
             "a Hugging Face model folder, a GGUF file, or a model of the Hub as ORG/NAME or "
             "ORG/NAME@REVISION, which is downloaded.",
             text(to.load));
  line.value("--tokenizer",
             "DIR",
             "Folder with tokenizer.json, or vocab.json and merges.txt; needed if the checkpoints "
             "have no tokenizer.",
             text(to.tokenizer));
  line.value({.name = "--threads",
              .type = "N",
              .unit = "threads",
              .help = "Threads for computation. Small models gain nothing from more than one."},
             whole(to.threads, 1, 4096));
  line.value({.name = "--backend",
              .type = "NAME",
              .help = "Backend that computes: cpu, cuda or reference."},
             one_of(to.backend, {"cpu", "cuda", "reference"}));
  line.toggle(
      "--bf16",
      "Computes in bf16: half the memory. On a CPU, which waits for memory, up to twice as fast.",
      [&to] { to.bf16 = true; });
  line.toggle("--fp16", "Computes in fp16.", [&to] { to.fp16 = true; });
}

void find_hub_models(model_flags& flags) {
  if (names_hub_model(flags.load))
    flags.load = hub_or_local_folder("--load", flags.load, runtime::hub_files::model);
  take_gguf(flags.load);
  if (!flags.tokenizer.empty())
    flags.tokenizer
        = hub_or_local_folder("--tokenizer", flags.tokenizer, runtime::hub_files::tokenizer);
}

std::unique_ptr<runtime::loaded_model> load(model_flags flags, runtime::model_use use) {
  if (flags.load.empty())
    throw usage_error(
        "--load DIR is missing: the --save folder of a training run, or a Hugging Face model "
        "folder");
  if (flags.bf16 && flags.fp16)
    throw usage_error("--bf16 and --fp16 exclude each other: give one");
  find_hub_models(flags);
  runtime::loading wanted{.from = flags.load,
                          .backend = runtime::backend_from(flags.backend).value(),
                          .threads = int(flags.threads),
                          .precision = flags.bf16   ? runtime::dtype::bf16
                                       : flags.fp16 ? runtime::dtype::f16
                                                    : runtime::dtype::f32,
                          .use = use};
  if (!flags.tokenizer.empty()) {
    tokenizer_flags files;
    files.folder = flags.tokenizer;
    wanted.with = make(files);
  }
  return std::make_unique<runtime::loaded_model>(std::move(wanted));
}

void require_experts(const runtime::loaded_model& model, const char* flag) {
  const auto& x = model.config();
  if (x.family().shared_by_expert_ranks(x).empty())
    throw usage_error("{}: this model has no mixture-of-experts layers; leave it out", flag);
}

}  // namespace troupe::command
