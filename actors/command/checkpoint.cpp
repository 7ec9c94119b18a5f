#include "actors/command/checkpoint_hub.hpp"
#include "actors/command/checkpoint_pages.hpp"
#include "actors/command/commands.hpp"
#include "actors/command/print.hpp"
#include "actors/command/setting_names.hpp"
#include "runtime/checkpoint/own_parameters.hpp"
#include "runtime/core/counted.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/core/progress.hpp"

#include <memory>

namespace troupe::command {
namespace {

using nlohmann::ordered_json;

constexpr int differs = 1, damaged = 2;

struct checkpoint_flags {
  std::vector<std::string> folders;
  bool json = false, tensors = false;
};

const std::string& only_folder(const checkpoint_flags& flags) {
  if (flags.folders.size() != 1)
    throw usage_error(
        "name one folder: a checkpoint, DIR/iter_0000100, or the --save folder of a "
        "run; {} are named",
        flags.folders.size());
  return flags.folders.front();
}

int print(const std::string& text, int code = 0) {
  print_page(text);
  return code;
}

int print(const ordered_json& x, int code = 0) {
  print_json(runtime::json_text_replacing(x, 1));
  return code;
}

int list(const checkpoint_flags& flags) {
  const auto all = runtime::list_checkpoints(only_folder(flags));
  return flags.json ? print(list_json(all)) : print(list_page(all));
}

int show_one(const checkpoint_flags& flags) {
  const auto x = runtime::list_checkpoints(runtime::named_checkpoint(only_folder(flags)).string());
  if (!x.front().manifest)
    throw runtime::input_error("{}", x.front().wrong);
  return flags.json ? print(show_json(x.front(), flags.tensors))
                    : print(show_page(x.front(), flags.tensors));
}

/// The fault of a checkpoint; empty if it is sound.
std::string damage_of(const runtime::listed_checkpoint& x) {
  if (!x.manifest)
    return x.wrong;
  try {
    runtime::progress_bar bar(fmt::format("verifying iteration {}", x.iteration), x.bytes, "B");
    runtime::checkpoint_reader(x.folder).verify([&](auto done) { bar.advance_to(done); });
    return "";
  } catch (const runtime::error& damage) {
    return with_flags(damage.what());
  }
}

int verify(const checkpoint_flags& flags) {
  auto found = ordered_json::array();
  std::string bad;
  for (const auto& x : runtime::list_checkpoints(only_folder(flags))) {
    const auto wrong = damage_of(x);
    found.push_back({{"folder", x.folder.string()},
                     {"iteration", x.iteration},
                     {"bytes", x.bytes},
                     {"sound", wrong.empty()},
                     {"wrong", wrong}});
    if (!wrong.empty())
      bad += (bad.empty() ? "" : "\n  ") + wrong;
    if (!flags.json)
      print(fmt::format("iteration {:>8}  {:>8}  {}\n",
                        x.iteration,
                        runtime::human_bytes(double(x.bytes)),
                        wrong.empty() ? "valid: all hashes match" : "damaged"));
  }
  if (flags.json)
    return print(found, bad.empty() ? 0 : damaged);
  if (!bad.empty())
    throw runtime::input_error("{}", bad);
  return 0;
}

int diff(const checkpoint_flags& flags) {
  if (flags.folders.size() != 2)
    throw usage_error(
        "name two folders to compare: checkpoints, or the --save folders of runs; "
        "{} are named",
        flags.folders.size());
  const runtime::checkpoint_reader a(runtime::named_checkpoint(flags.folders[0]));
  const runtime::checkpoint_reader b(runtime::named_checkpoint(flags.folders[1]));
  for (const auto* x : {&a, &b})
    runtime::require_known_parameters(*x);
  const auto found = diff_json(a, b);
  const int code = found["equal"].get<bool>() ? 0 : differs;
  return flags.json ? print(found, code) : print(diff_page(found), code);
}

command_line& add(command_line& to,
                  const char* name,
                  const char* about,
                  const char* words,
                  const char* help,
                  int (*does)(const checkpoint_flags&)) {
  const auto flags = std::make_shared<checkpoint_flags>();
  auto& line = to.command(name, about, [flags, does] { return does(*flags); });
  line.words(words, help, flags->folders);
  line.toggle("--json", "Prints JSON, for programs.", [flags] { flags->json = true; });
  if (does == show_one)
    line.toggle("--tensors",
                "Lists every tensor with its type, its shape and the number of its pieces.",
                [flags] { flags->tensors = true; });
  return line;
}

}  // namespace

void add_checkpoint(command_line& program) {
  auto& group
      = program.command("checkpoint", "lists, shows, verifies, compares, exports, imports.");
  constexpr const char* one
      = "A checkpoint, as DIR/iter_0000100, or the --save folder of a run, which stands for its "
        "latest checkpoint.";
  constexpr const char* two
      = "Two checkpoints, each as DIR/iter_0000100 or the --save folder of a run, which stands for "
        "its latest checkpoint.";
  constexpr const char* all
      = "The --save folder of a run, or one checkpoint in it, as DIR/iter_0000100.";
  add(group, "ls", "lists the checkpoints of a run, one per line.", "DIR", all, list)
      .note(
          "A * marks the latest checkpoint, from which --load resumes. `complete` means that "
          "manifest, sizes and headers are consistent; only `troupe checkpoint verify` reads the "
          "elements.");
  add(group, "show", "shows the manifest of a checkpoint.", "DIR", one, show_one)
      .note(
          "Model, identity (all that changes bits) and layout are those of the run that saved. "
          "A run of any other layout can load it.");
  add(group, "verify", "reads every byte and compares every hash.", "DIR", all, verify)
      .note(
          "Exit code 0: all are valid. 2: something is damaged; prints the file, and the tensor or "
          "part of it.");
  add(group, "diff", "compares two checkpoints, tensor by tensor.", "A B", two, diff)
      .note(
          "The checkpoints may have different layouts: tensors are assembled from their pieces, "
          "16 MiB at a time. Differences of identity, iteration and layout are printed, but do not "
          "change the exit code.")
      .note(
          "Exit code 0: models and tensors are equal to the bit. 1: they differ. 2: one cannot be "
          "read.");
  add_export(group);
  add_import(group);
}

}  // namespace troupe::command
