#include "actors/command/tokenizer_chat.hpp"

#include "actors/command/hub_models.hpp"
#include "actors/command/print.hpp"
#include "actors/command/standard_input.hpp"
#include "actors/command/tokenizer_flags.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/file/file.hpp"
#include "runtime/tokenizer/chat_template.hpp"

#include <ctime>
#include <memory>

namespace troupe::command {
nlohmann::ordered_json json_in(const std::string& flag, const std::string& file) {
  const auto content = file == "-" ? read_standard_input() : runtime::read_text(file);
  try {
    return runtime::ordered_json_value_of_record(content);
  } catch (const nlohmann::json::exception& failure) {
    throw runtime::input_error(
        "{} '{}' is not JSON: {}", flag, file, runtime::json_complaint(failure));
  }
}

nlohmann::ordered_json variables_of(const std::vector<std::string>& words) {
  auto out = nlohmann::ordered_json::object();
  for (const auto& word : words) {
    const auto equals = word.find('=');
    if (equals == std::string::npos || equals == 0)
      throw usage_error("--set '{}' is not NAME=VALUE", shown(word));
    const auto value = word.substr(equals + 1);
    try {
      out[word.substr(0, equals)] = runtime::ordered_json_value(value);
    } catch (const nlohmann::json::exception&) {
      out[word.substr(0, equals)] = value;
    }
  }
  return out;
}

std::filesystem::path chat_folder(const tokenizer_flags& flags) {
  if (!flags.folder.empty())
    return hub_or_local_folder("--tokenizer", flags.folder, runtime::hub_files::tokenizer);
  if (flags.model.empty())
    throw usage_error("--tokenizer DIR is missing: the folder with the model's chat template");
  if (names_hub_model(flags.model))
    return hub_or_local_folder("--tokenizer-model", flags.model, runtime::hub_files::tokenizer);
  return std::filesystem::is_directory(flags.model) ? flags.model : flags.model.parent_path();
}

runtime::chat_template chat_template_for(const std::filesystem::path& folder,
                                         const std::string& chosen,
                                         bool tools) {
  const auto found = runtime::chat_templates_in(folder);
  const bool is_file = chosen.find('/') != std::string::npos || chosen.ends_with(".jinja");
  if (is_file)
    return {{runtime::read_text(chosen), fmt::format("the chat template '{}'", chosen)},
            found.special_tokens};
  return runtime::choose_chat_template(found, folder, chosen, tools);
}

namespace {

struct chat_options {
  tokenizer_flags tokenizer;
  std::string messages = "-", tools, documents, chosen;
  std::vector<std::string> set;
  bool generation_prompt = false, open = false, ids = false;
};

runtime::chat_request request_of(const chat_options& options) {
  runtime::chat_request out;
  out.messages = json_in("--messages", options.messages);
  if (out.messages.is_object()) {
    auto whole = std::move(out.messages);
    if (!whole.contains("messages"))
      throw runtime::input_error("--messages '{}' is an object without \"messages\"",
                                 options.messages);
    out.messages = std::move(whole["messages"]);
    if (whole.contains("tools"))
      out.tools = std::move(whole["tools"]);
  }
  if (!options.tools.empty())
    out.tools = json_in("--tools", options.tools);
  if (!options.documents.empty())
    out.documents = json_in("--documents", options.documents);
  out.variables = variables_of(options.set);
  out.add_generation_prompt = options.generation_prompt;
  out.continue_field = options.open ? "content" : "";
  out.now = std::time(nullptr);
  return out;
}

int print_prompt(const chat_options& options) {
  auto request = request_of(options);
  const auto with
      = chat_template_for(chat_folder(options.tokenizer), options.chosen, !request.tools.is_null());
  const auto prompt = with.render(std::move(request)).text;
  if (options.ids)
    print_page(
        "{}\n",
        fmt::join(make(options.tokenizer)->encode(prompt, runtime::special_tokens::recognised),
                  " "));
  else
    print_data(prompt);
  return 0;
}

}  // namespace

void add_chat(command_line& tokenizer) {
  auto& chat = tokenizer.command(
      "chat", "converts a conversation to the prompt that a chat model was trained on.");
  const auto options = std::make_shared<chat_options>();
  auto& o = *options;
  chat.group("Conversation");
  chat.value({.name = "--messages",
              .type = "FILE",
              .default_value = "standard input",
              .help = "A JSON list of messages, [{\"role\": \"user\", \"content\": \"Hello\"}], or "
                      "an object with the fields `messages` and `tools`; - is standard input."},
             text(o.messages));
  chat.value("--tools",
             "FILE",
             "A JSON list of the functions that the model may call, as JSON schemas.",
             text(o.tools));
  chat.value("--documents",
             "FILE",
             "A JSON list of documents, for templates that use them.",
             text(o.documents));
  chat.group("Prompt");
  chat.toggle("--add-generation-prompt",
              "Ends with the header of an answer, so that the model writes the answer.",
              [options] { options->generation_prompt = true; });
  chat.toggle("--continue-final-message",
              "Ends within the last message, so that the model continues it.",
              [options] { options->open = true; });
  chat.value({.name = "--template",
              .type = "NAME",
              .default_value = "tool_use with tools, if there is one, else default",
              .help = "Name of a template in a folder with several; or a file, if the name "
                      "contains / or ends with .jinja."},
             text(o.chosen));
  chat.values("--set",
              "NAME=VALUE",
              1,
              64,
              "Variable of the template, as JSON or else as text, e.g. enable_thinking=false. "
              "Several: NAME=VALUE NAME=VALUE, or the flag again.",
              all(o.set));
  chat.toggle("--ids", "Prints token ids instead of the text.", [options] { options->ids = true; });
  declare(chat, o.tokenizer);
  chat.note(
      "Example: echo '[{\"role\": \"user\", \"content\": \"Hello\"}]' | troupe tokenizer chat "
      "--tokenizer Qwen3-0.6B --add-generation-prompt");
  chat.runs([options] { return print_prompt(*options); });
}

}  // namespace troupe::command
