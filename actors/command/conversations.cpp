#include "actors/command/commands.hpp"
#include "actors/command/other_names.hpp"
#include "actors/command/print.hpp"
#include "actors/command/signals.hpp"
#include "actors/command/tokenizer_chat.hpp"
#include "runtime/core/counted.hpp"
#include "runtime/core/log.hpp"
#include "runtime/data/conversation_files.hpp"

#include <algorithm>
#include <ctime>
#include <memory>
#include <thread>

namespace troupe::command {
namespace {

struct conversations_flags {
  runtime::conversation_files_options what;
  tokenizer_flags tokenizer;
  std::string format = "template", chosen;
  std::vector<std::string> set;
  std::optional<std::int64_t> workers;
};

void tell_unread(const char* what, const std::set<std::string>& fields) {
  if (!fields.empty())
    runtime::log_warning(
        "left out these unknown fields of a {}, which the template does not name: {}",
        what,
        fmt::join(fields, ", "));
}

int write_all(conversations_flags& flags, const runtime::cancel_token& stop) {
  auto& what = flags.what;
  what.stop = stop;
  if (what.inputs.empty())
    throw usage_error("--input FILE... is missing: conversations, as JSON lines or a JSON array");
  if (what.output_prefix.empty())
    throw usage_error("--output-prefix PREFIX is missing: the prefix of the output files");
  const auto format = runtime::conversation_format_from(flags.format);
  const bool own = runtime::uses_own_template(format);
  if (!own && !(flags.chosen.empty() && flags.set.empty()))
    throw usage_error("--format {} has its own template: leave out --template and --set",
                      flags.format);
  what.workers
      = unsigned(flags.workers.value_or(std::max(1U, std::thread::hardware_concurrency())));
  const auto with = make(flags.tokenizer);
  const auto prompt = own ? chat_template_for(chat_folder(flags.tokenizer), flags.chosen, false)
                          : runtime::template_of(format);
  const auto made = runtime::write_conversations({.text = *with,
                                                  .prompt = prompt,
                                                  .format = format,
                                                  .variables = variables_of(flags.set),
                                                  .now = std::time(nullptr),
                                                  .stop = stop},
                                                 what);
  tell_unread("line", made.unread_of_lines);
  tell_unread("message", made.unread_of_messages);
  print_page(
      "wrote '{}' and '{}' (.bin and .idx): {}, {}, {} of them in answers; the longest has {}\n",
      made.prefix.string(),
      runtime::answers_prefix(made.prefix).filename().string(),
      runtime::counted(made.conversations, "conversation"),
      runtime::counted(made.tokens, "token"),
      made.answer_tokens,
      made.longest);
  if (made.skipped > 0)
    print_page("skipped {} in which there is nothing to learn: {}{}\n",
               runtime::counted(made.skipped, "conversation"),
               fmt::join(made.skipped_at, ", "),
               made.skipped > std::int64_t(made.skipped_at.size()) ? ", ..." : "");
  return 0;
}

}  // namespace

void add_conversations(command_line& program) {
  auto& line = program.command("conversations",
                               "turns conversations into a data set for `troupe train gpt --sft`.");
  const auto flags = std::make_shared<conversations_flags>();
  auto& what = flags->what;
  line.values(
      {.name = "--input",
       .type = "FILE...",
       .help = "Conversations, one JSON object per line or one JSON array of objects, plain or "
               "compressed by gzip or Zstandard: {\"messages\": [{\"role\": \"user\", "
               "\"content\": \"Hello\"}, ...]}, {\"conversations\": [{\"from\": \"human\", "
               "\"value\": \"Hello\"}, ...]}, {\"instruction\": \"Add.\", \"input\": \"2+2\", "
               "\"output\": \"4.\"} or {\"prompt\": \"2+2?\", \"completion\": \"4.\"}; with "
               "\"tools\" for templates that show them. A system message begins another "
               "conversation.",
       .least = 1,
       .most = 1 << 20},
      all(what.inputs));
  line.value("--output-prefix",
             "PREFIX",
             "Prefix of the output: writes PREFIX_conversations and PREFIX_conversations_answers, "
             "each as .bin and .idx.",
             text(what.output_prefix));
  line.value({.name = "--format",
              .type = "FORMAT",
              .help = "template: the folder's chat template; answers are the parts in {% "
                      "generation %}, or else the text of each message of the assistant. The "
                      "others are the formats of Megatron-LM's --sft-tokenizer-prompt-format."},
             one_of(flags->format,
                    {"template", "default", "nemotron-h-aligned", "nemotron-nano-v2", "identity"}));
  line.value({.name = "--template",
              .type = "NAME",
              .default_value = "default",
              .help = "The template to use if the folder has several; or a file: its name has a / "
                      "or ends in .jinja."},
             text(flags->chosen));
  line.values("--set",
              "NAME=VALUE",
              1,
              64,
              "A variable for the template, as JSON or else as text: enable_thinking=false. "
              "Several: NAME=VALUE NAME=VALUE, or repeat the flag.",
              all(flags->set));
  line.value({.name = "--workers",
              .type = "N",
              .default_value = "the cores",
              .help = "Number of threads. The output is the same for any number."},
             whole(flags->workers, 1, 1024));
  line.toggle(
      "--strict",
      "Refuses a conversation without an answer and names the reason. Without this flag such a "
      "conversation is skipped and counted.",
      [&what] { what.strict = true; });
  declare(line, flags->tokenizer);
  declare_other_names(line, other_names_of_preparing());
  line.note(
      "Example: writes data/talks_conversations, for --sft --data-path data/talks_conversations:");
  line.note(
      "troupe conversations --input talks.jsonl --output-prefix data/talks --tokenizer Qwen3-0.6B");
  line.runs([flags] {
    return interruptible(
        [&](const runtime::cancel_token& stop) { return write_all(*flags, stop); });
  });
}

}  // namespace troupe::command
