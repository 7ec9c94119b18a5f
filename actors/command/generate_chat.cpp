// `troupe generate --chat`: answers the turns of a conversation.

#include "actors/command/generate.hpp"
#include "actors/command/tokenizer_chat.hpp"

#include <cstdio>
#include <ctime>
#include <utility>

namespace troupe::command {
namespace {

/// The turns of a conversation, and the model that answers them.
class chat {
 public:
  explicit chat(generate_flags& flags)
      : flags_(flags),
        prompt_(chat_template_for(folder_of_template(flags), flags.chat_template, false)),
        model_(load(flags.model)) {
    flags.framed = false;  // the template writes the special tokens before a text
    find_end_of_turn();
  }

  runtime::loaded_model& model() { return *model_; }
  void begin(nlohmann::ordered_json messages) { messages_ = std::move(messages); }

  /// Answers the last turn, and keeps the answer.
  void answer(const std::function<bool()>& wanted) {
    const auto text = render(messages_, true);
    require_fitting(request_for(text, 0, flags_, *model_), model_->whole().model());
    const auto found = stream_text(*model_, flags_, text, wanted);
    show("\n");
    if (found.end != runtime::generation_end::end_of_document)
      std::fputs(end_note(found.end, model_->whole().model()).c_str(), stderr);
    messages_.push_back({{"role", "assistant"}, {"content", found.text}});
  }

  /// Adds a turn of the user and answers it. After an exception neither is kept.
  void say(const std::string& words, const std::function<bool()>& wanted) {
    messages_.push_back({{"role", "user"}, {"content", words}});
    try {
      answer(wanted);
    } catch (...) {
      messages_.erase(messages_.size() - 1);
      throw;
    }
  }

 private:
  static std::filesystem::path folder_of_template(const generate_flags& flags) {
    if (!flags.model.tokenizer.empty())
      return flags.model.tokenizer;
    if (flags.model.load.empty())
      throw usage_error("--load DIR is missing: the --save folder of a training run");
    auto kept = runtime::kept_tokenizer(flags.model.load);
    if (flags.chat_template.empty() && runtime::chat_templates_in(kept).by_name.empty())
      throw runtime::input_error(
          "'{}' has no chat template; name a folder that has one by --tokenizer DIR, or a file by "
          "--template",
          kept.string());
    return kept;
  }

  std::string render(const nlohmann::ordered_json& messages, bool header) const {
    return prompt_
        .render({.messages = messages,
                 .variables = variables_of(flags_.set),
                 .add_generation_prompt = header,
                 .now = std::time(nullptr)})
        .text;
  }

  /// Finds the end of an answer in the template's output after it: the first token if it is
  /// special, else the text.
  void find_end_of_turn() {
    const std::string said = "an answer";
    const auto text = render(
        {{{"role", "user"}, {"content", "a question"}}, {{"role", "assistant"}, {"content", said}}},
        false);
    const auto at = text.rfind(said);
    auto after = at == std::string::npos ? std::string() : text.substr(at + said.size());
    const auto ids = model_->text().encode(after, runtime::special_tokens::recognised);
    if (!ids.empty() && model_->text().is_special(ids.front())) {
      flags_.end_tokens.push_back(ids.front());
      return;
    }
    after.erase(after.find_last_not_of(" \t\r\n") + 1);
    if (!after.empty())
      flags_.stop.push_back(after);
  }

  generate_flags& flags_;
  runtime::chat_template prompt_;
  std::unique_ptr<runtime::loaded_model> model_;
  nlohmann::ordered_json messages_ = nlohmann::ordered_json::array();
};

nlohmann::ordered_json messages_in(const std::string& file) {
  auto out = json_in("--messages", file);
  if (out.is_object() && out.contains("messages")) {
    auto list = out["messages"];
    out = std::move(list);
  }
  if (!out.is_array() || out.empty())
    throw runtime::input_error(
        "--messages '{}' is not a conversation: give a JSON list of messages, [{{\"role\": "
        "\"user\", \"content\": \"Hello\"}}]",
        file);
  return out;
}

}  // namespace

int generate_chat(generate_flags flags) {
  if (!flags.messages.empty()) {
    auto messages = messages_in(flags.messages);
    chat with(flags);
    with.begin(std::move(messages));
    with.answer([] { return true; });
    return 0;
  }
  chat with(flags);
  answer_lines(flags,
               "Write to the model and press Enter: it answers, and remembers earlier turns.\n",
               [&](const std::string& line, const std::function<bool()>& wanted) {
                 if (!line.empty())
                   with.say(line, wanted);
               });
  return 0;
}

}  // namespace troupe::command
