#include "runtime/data/conversation.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/core/shortened.hpp"
#include "runtime/data/conversation_fields.hpp"
#include "runtime/data/conversation_forms.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

namespace troupe::runtime {
namespace {

using ordered = nlohmann::ordered_json;

/// Limits the stack that recursive traversals need.
constexpr int most_depth = 64;

ordered value_of_line(std::string_view line) {
  if (const int depth = json_depth(line); depth > most_depth)
    throw input_error("its JSON is nested {} deep: the maximum is {}", depth, most_depth);
  try {
    return ordered_json_value_of_record(line);
  } catch (const nlohmann::json::exception& e) {
    const auto what = fmt::format("it is not JSON: {}", json_complaint(e));
    if (line.starts_with('{'))
      throw input_error("{}; give one JSON object a line, or one JSON array of objects", what);
    refuse_form(what);
  }
}

bool is_role(std::string_view name) {
  constexpr std::array<std::string_view, 5> names
      = {"system", "developer", "user", "assistant", "tool"};
  return std::ranges::find(names, name) != names.end();
}

/// The role for a name in ShareGPT's form. chatgpt, bing and bard occur in its first dump,
/// observation in LLaMA-Factory's.
std::string shared_role(const std::string& name) {
  constexpr std::array<std::pair<std::string_view, const char*>, 7> roles
      = {{{"human", "user"},
          {"gpt", "assistant"},
          {"chatgpt", "assistant"},
          {"bing", "assistant"},
          {"bard", "assistant"},
          {"function", "tool"},
          {"observation", "tool"}}};
  const auto found = std::ranges::find(roles, name, [](const auto& x) { return x.first; });
  return found == roles.end() ? name : found->second;
}

std::string role_of(const ordered& message, const char* key, std::size_t number) {
  const auto found = message.find(key);
  if (found == message.end() || !found->is_string())
    throw input_error("its message {} has no text under \"{}\"", number, key);
  auto name = found->get<std::string>();
  if (std::string_view(key) == "from")
    name = shared_role(name);
  if (!is_role(name))
    throw input_error(
        "the role '{}' of its message {} is unknown: it must be system, developer, user, assistant "
        "or tool",
        shortened(name, 80),
        number);
  return name;
}

bool is_full_list(const ordered& message, const char* key) {
  const auto found = message.find(key);
  return found != message.end() && found->is_array() && !found->empty();
}

/// Converts a message of either form to the template's form, with "role" and "content".
ordered message_of(const ordered& from, bool shared, std::size_t number) {
  if (!from.is_object())
    throw input_error("its message {} is not a JSON object", number);
  ordered out = from;
  const auto role = role_of(from, shared ? "from" : "role", number);
  if (shared) {
    out.erase("from");
    if (const auto value = out.find("value"); value != out.end()) {
      const ordered content = *value;
      out.erase("value");
      out["content"] = content;
    }
  }
  out["role"] = role;
  const bool calls = is_full_list(from, "tool_calls");
  const auto content = out.find("content");
  if (content != out.end() && content->is_null() && role == "assistant" && !calls)
    *content = "";
  const bool has_text = content != out.end() && content->is_string();
  if (!has_text && !is_full_list(out, "content") && !calls)
    throw input_error(
        "its message {} has no text under \"{}\"", number, shared ? "value" : "content");
  return out;
}

/// Appends a message and records whether it has a loss.
void add_message(conversation& to, ordered message, std::size_t number) {
  const auto learnt = is_to_be_learnt(message, number);
  const bool is_answer = message["role"] == "assistant";
  if (learnt == true && !is_answer)
    throw input_error(
        "its message {} is to be learnt, but its role is {}: only the assistant's are learnt",
        number,
        message["role"].get<std::string>());
  if (learnt == false && is_answer)
    to.context.push_back(to.messages.size());
  to.messages.push_back(std::move(message));
}

bool is_context(const conversation& x, std::size_t message) {
  return std::ranges::binary_search(x.context, message);
}

/// Requires at least one answer to learn; other answers may be empty.
void require_answer(const conversation& x) {
  if (x.messages.empty())
    throw nothing_to_learn("its list of messages is empty");
  bool answer = false, learnt = false;
  for (std::size_t i = 0; i < x.messages.size(); ++i) {
    const auto& m = x.messages[i];
    if (m["role"] != "assistant")
      continue;
    answer = true;
    const auto content = m.find("content");
    const bool empty = content == m.end() || content->empty()
                       || (content->is_string() && content->get_ref<const std::string&>().empty());
    learnt = learnt || (!is_context(x, i) && (!empty || is_full_list(m, "tool_calls")));
  }
  if (!answer)
    throw nothing_to_learn("it has no message of the role assistant");
  if (!learnt)
    throw nothing_to_learn("it has no answer with a text that is to be learnt");
}

// Megatron-LM's named formats. These templates mark the answers by {% generation %}.
constexpr const char* h_aligned
    = "{%- for m in messages -%}{%- set text = m['content'].strip() + '\\n' -%}"
      "{%- if m['role'] == 'system' -%}{{- '<SPECIAL_10>System\\n' + text -}}"
      "{%- elif m['role'] == 'user' -%}"
      "{{- '<SPECIAL_11>User\\n' + text + '<SPECIAL_11>Assistant\\n' -}}"
      "{%- elif m['role'] == 'assistant' -%}"
      "{%- generation -%}{{- text -}}{%- endgeneration -%}{%- endif -%}{%- endfor -%}";
constexpr const char* nano_v2
    = "{%- for m in messages -%}{%- set text = m['content'] -%}"
      "{%- set plain = text.replace('/think', '').replace('/no_think', '').strip() + '\\n' -%}"
      "{%- if m['role'] == 'system' -%}{{- '<SPECIAL_10>System\\n' + plain -}}"
      "{%- elif m['role'] == 'user' -%}{{- '<SPECIAL_11>User\\n' + plain -}}"
      "{%- elif m['role'] == 'assistant' -%}{{- '<SPECIAL_11>Assistant\\n' -}}"
      "{%- generation -%}{{- text.strip() + '\\n<SPECIAL_12>\\n' -}}{%- endgeneration -%}"
      "{%- endif -%}{%- endfor -%}";
constexpr const char* contents_alone
    = "{%- for m in messages -%}{%- if m['role'] == 'assistant' -%}"
      "{%- generation -%}{{- m['content'] -}}{%- endgeneration -%}"
      "{%- else -%}{{- m['content'] -}}{%- endif -%}{%- endfor -%}";

rendered_template render_first(const conversation_rules& by,
                               const conversation& x,
                               std::size_t messages,
                               bool header) {
  ordered first = ordered::array();
  for (std::size_t i = 0; i < messages; ++i)
    first.push_back(x.messages[i]);
  return by.prompt.render({.messages = std::move(first),
                           .tools = x.tools,
                           .variables = by.variables,
                           .add_generation_prompt = header,
                           .now = by.now});
}

/// The text before the answer that begins the conversation. Zero messages cannot be rendered. So
/// the header is what the generation prompt adds, and the answer begins after its first occurrence.
std::string before_first(const conversation_rules& by,
                         const conversation& x,
                         const std::string& after) {
  const auto prompted = render_first(by, x, 1, true).text;
  if (!prompted.starts_with(after))
    return {};
  const auto header = prompted.substr(after.size());
  const auto at = header.empty() ? std::string::npos : after.find(header);
  return at == std::string::npos ? std::string() : after.substr(0, at + header.size());
}

/// Removes the marked ranges of answers without loss. Renders the messages up to each answer to
/// count its marked ranges.
void drop_context(const conversation_rules& by,
                  const conversation& x,
                  std::vector<jinja::text_range>& marked) {
  std::vector<jinja::text_range> out;
  std::size_t done = 0;
  for (std::size_t i = 0; i < x.messages.size(); ++i) {
    if (x.messages[i]["role"] != "assistant")
      continue;
    by.stop.throw_if_cancelled();
    const auto end = render_first(by, x, i + 1, false).generations.size();
    if (end < done || end > marked.size())
      throw input_error(
          "the template marks other parts of the text once messages follow, so the part of message "
          "{}, which is not to be learnt, cannot be located",
          i + 1);
    if (!is_context(x, i))
      out.insert(
          out.end(), marked.begin() + std::ptrdiff_t(done), marked.begin() + std::ptrdiff_t(end));
    done = end;
  }
  marked = std::move(out);
}

/// Locates the answers when the template marks none: renders the messages before and after each.
std::vector<jinja::text_range> answers_by_prefixes(const conversation_rules& by,
                                                   const conversation& x,
                                                   std::string_view whole) {
  std::vector<jinja::text_range> out;
  for (std::size_t i = 0; i < x.messages.size(); ++i) {
    if (x.messages[i]["role"] != "assistant" || is_context(x, i))
      continue;
    by.stop.throw_if_cancelled();  // each answer renders the conversation again
    const auto after = render_first(by, x, i + 1, false).text;
    const auto before = i == 0 ? before_first(by, x, after) : render_first(by, x, i, true).text;
    if (!whole.starts_with(before) || !whole.starts_with(after) || after.size() < before.size())
      throw input_error(
          "the template marks no answers by {{% generation %}}, and renders the text up to message "
          "{} in another way once more messages follow, so the tokens of the answer cannot be "
          "located; give a template that marks them",
          i + 1);
    if (after.size() > before.size())
      out.push_back({before.size(), after.size()});
  }
  return out;
}

/// A tokenized text, with the number of tokens before each border.
class bordered_text {
 public:
  bordered_text(const tokenizer& with,
                std::string_view text,
                const std::vector<std::size_t>& borders)
      : with_(with), text_(text), ids_(with.encode(text, special_tokens::recognised)) {
    // Tokenizing the parts usually gives the ids of the whole text, and then the borders are known.
    std::vector<std::int32_t> joined;
    std::size_t at = 0;
    for (const auto border : borders) {
      with.append(text.substr(at, border - at), joined, special_tokens::recognised);
      counts_.push_back(joined.size());
      at = border;
    }
    with.append(text.substr(at), joined, special_tokens::recognised);
    parts_ = joined == ids_;
  }

  const std::vector<std::int32_t>& ids() const { return ids_; }

  /// The number of tokens before border k, at byte `at`, and whether a token crosses it.
  std::pair<std::int32_t, bool> tokens_before(std::size_t k, std::size_t at) const {
    if (parts_)
      return {std::int32_t(counts_[k]), false};
    const auto first = with_.encode(text_.substr(0, at), special_tokens::recognised);
    const auto differs = std::ranges::mismatch(first, ids_).in1;
    return {std::int32_t(differs - first.begin()), differs != first.end()};
  }

 private:
  const tokenizer& with_;
  std::string_view text_;
  std::vector<std::int32_t> ids_;
  std::vector<std::size_t> counts_;
  bool parts_ = false;
};

}  // namespace

std::vector<conversation> conversations_of(std::string_view line) {
  const auto value = with_messages(value_of_line(line));
  const auto [name, list] = list_of_messages(value);
  ordered tools = nullptr;
  if (const auto found = value.find("tools"); found != value.end() && !found->is_null()) {
    if (!found->is_array())
      throw input_error("its \"tools\" are not a list");
    tools = *found;
  }
  refuse_fields_of_line(value);
  std::vector<conversation> out;
  if (auto system = system_message_of(value); !system.is_null())
    out.push_back({.messages = ordered::array({std::move(system)}), .tools = tools});
  for (std::size_t i = 0; i < list.size(); ++i) {
    auto message = message_of(list[i], name == "conversations", i + 1);
    if (out.empty() || message["role"] == "system")
      out.push_back({.messages = ordered::array(), .tools = tools});
    add_message(out.back(), std::move(message), i + 1);
  }
  if (out.empty())
    out.push_back({.messages = ordered::array(), .tools = tools});
  out.front().unread = unread_fields_of_line(value, name);
  return out;
}

conversation_format conversation_format_from(std::string_view name) {
  if (name == "template")
    return conversation_format::chat_template;
  if (name == "default")
    return conversation_format::whole;
  if (name == "nemotron-h-aligned")
    return conversation_format::nemotron_h_aligned;
  if (name == "nemotron-nano-v2")
    return conversation_format::nemotron_nano_v2;
  if (name == "identity")
    return conversation_format::identity;
  throw input_error(
      "cannot render conversations in the format '{}': it must be template, default, "
      "nemotron-h-aligned, nemotron-nano-v2 or identity",
      name);
}

bool uses_own_template(conversation_format format) {
  return format == conversation_format::chat_template || format == conversation_format::whole;
}

chat_template template_of(conversation_format format) {
  const bool h = format == conversation_format::nemotron_h_aligned;
  const bool nano = format == conversation_format::nemotron_nano_v2;
  ensure(!uses_own_template(format), "CONVERSATION-1: a format of that kind has no template");
  return {{h      ? h_aligned
           : nano ? nano_v2
                  : contents_alone,
           h      ? "the format nemotron-h-aligned"
           : nano ? "the format nemotron-nano-v2"
                  : "the format identity"},
          ordered::object()};
}

tokenized_conversation tokenize(const conversation_rules& by, const conversation& x) {
  require_answer(x);
  auto rendered = by.prompt.render(
      {.messages = x.messages, .tools = x.tools, .variables = by.variables, .now = by.now});
  if (by.format == conversation_format::whole && !x.context.empty())
    throw input_error(
        "its message {} is not to be learnt, but the format default learns all tokens",
        x.context.front() + 1);
  if (by.format == conversation_format::whole)
    rendered.generations = {{0, rendered.text.size()}};
  else if (rendered.generations.empty())
    rendered.generations = answers_by_prefixes(by, x, rendered.text);
  else if (!x.context.empty())
    drop_context(by, x, rendered.generations);

  std::vector<std::size_t> borders;
  for (const auto& range : rendered.generations)
    borders.insert(borders.end(), {range.begin, range.end});
  const bordered_text text(by.text, rendered.text, borders);
  tokenized_conversation out{.ids = text.ids(), .answers = {}};
  for (std::size_t k = 0; k < borders.size(); k += 2) {
    const auto begin = text.tokens_before(k, borders[k]).first;
    const auto [before, across] = text.tokens_before(k + 1, borders[k + 1]);
    const auto end = std::min(before + (across ? 1 : 0), std::int32_t(out.ids.size()));
    const auto from = out.answers.empty() ? begin : std::max(begin, out.answers.back().second);
    if (from < end)
      out.answers.emplace_back(from, end);
  }
  if (out.answers.empty())
    throw nothing_to_learn("its text has no token of an answer");
  return out;
}

}  // namespace troupe::runtime
