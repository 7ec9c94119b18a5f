#include "runtime/data/merge_datasets.hpp"

#include "actors/command/commands.hpp"
#include "actors/command/print.hpp"
#include "actors/command/signals.hpp"
#include "runtime/core/counted.hpp"

#include <memory>

namespace troupe::command {
namespace {

int merge_all(runtime::merge_options& what, const runtime::cancel_token& stop) {
  what.stop = stop;
  if (what.inputs.empty())
    throw usage_error("--input DIR|PREFIX... is missing: the data sets to merge");
  if (what.output_prefix.empty())
    throw usage_error("--output-prefix PREFIX is missing: the name of the output");
  const auto made = runtime::merge_datasets(what);
  print_page("wrote '{}.bin' and '.idx': {}, {} of {}{}\n",
             what.output_prefix.string(),
             runtime::counted(made.documents, "document"),
             runtime::counted(made.tokens, "token"),
             runtime::counted(made.datasets, "data set"),
             made.remembers_tokenizer
                 ? ""
                 : "; no manifest, because not all of them name the same tokenizer");
  return 0;
}

}  // namespace

void add_merge_datasets(command_line& program) {
  auto& line = program.command("merge-datasets",
                               "concatenates indexed data sets (.bin and .idx) into one data set.");
  const auto what = std::make_shared<runtime::merge_options>();
  line.values({.name = "--input",
               .type = "DIR|PREFIX...",
               .help = "Prefixes of data sets, in this order; a folder means all data sets in it, "
                       "in the order of their names.",
               .least = 1,
               .most = 1 << 20},
              all(what->inputs));
  line.value("--output-prefix",
             "PREFIX",
             "Writes PREFIX.bin and PREFIX.idx; replaces an older data set of that name.",
             text(what->output_prefix));
  line.refused("--multimodal", "data sets with images are not supported; leave it out");
  line.note("Writes the same bytes as Megatron-LM's tools/merge_datasets.py.");
  line.note(
      "Refuses data sets of different token types or, by their manifests, of different "
      "tokenizers.");
  line.note(
      "Memory does not grow with the data. The output appears only when it is complete; a failure "
      "leaves no files.");
  line.note(
      "Example: troupe merge-datasets --input parts data/more_text_document --output-prefix "
      "data/all_text_document");
  line.runs([what] {
    return interruptible([&](const runtime::cancel_token& stop) { return merge_all(*what, stop); });
  });
}

}  // namespace troupe::command
