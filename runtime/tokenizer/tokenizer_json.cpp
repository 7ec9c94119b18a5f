#include "runtime/tokenizer/tokenizer_json.hpp"

#include "runtime/file/file.hpp"
#include "runtime/tokenizer/tokenizer_json_parts.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>

namespace troupe::runtime {

namespace {

using json = nlohmann::json;

/// True if each merge comes after the merges that form its parts. All merge_order values then give
/// the same ids.
bool in_order_of_training(const std::vector<bpe_merge>& merges) {
  std::unordered_map<std::int32_t, std::size_t> made;  // by token: the last merge that forms it
  for (std::size_t rank = 0; rank < merges.size(); ++rank)
    made[merges[rank].result] = rank;
  for (std::size_t rank = 0; rank < merges.size(); ++rank)
    for (const auto part : {merges[rank].left, merges[rank].right})
      if (const auto by = made.find(part); by != made.end() && by->second >= rank)
        return false;
  return true;
}

bool cuts_as_gpt2(const json_part& file, const tokenizer_parts& x) {
  const auto pre = file.maybe("pre_tokenizer");
  const auto* const model = std::get_if<byte_bpe_parts>(&x.model);
  return model && pre && in_order_of_training(x.vocabulary.merges) && x.normal.empty()
         && model->whole_words.empty() && pre->type() == "ByteLevel"
         && !pre->flag("add_prefix_space", true) && pre->flag("use_regex", true);
}

/// True if the result depends on whether a normalizer changed the start of a text, which only the
/// library tracks.
bool front_is_unknown(const tokenizer_parts& x) {
  const auto keeps = [](const normalizer::step& step) {
    return std::holds_alternative<unicode_form>(step) || std::holds_alternative<lowercase>(step)
           || std::holds_alternative<prepended>(step);
  };
  const bool all_keep = std::all_of(x.normal.begin(), x.normal.end(), keeps);
  for (std::size_t i = 0; i < x.rules.size(); ++i)
    if (const auto* const marks = std::get_if<space_marks>(&x.rules[i]))
      if (marks->put == space_marks::before::first && (i == 0 ? !all_keep : !x.normal.empty()))
        return true;
  return false;
}

json parsed(const std::filesystem::path& file) {
  try {
    const auto text = read_text(file);
    if (json_depth(text) > deepest_json)  // readers of the content are recursive
      throw input_error(
          "cannot use '{}': its brackets are more than {} deep", file.string(), deepest_json);
    return json_value(text);
  } catch (const json::exception& failure) {
    throw input_error("cannot read '{}': it is not JSON: {}; was it downloaded whole?",
                      file.string(),
                      json_complaint(failure));
  }
}

/// A setting of tokenizer_config.json and the tokenizer.json field that it overrides.
struct overriding {
  const char* setting;
  const char* type;
  const char* field;
};
constexpr overriding all_overriding[]
    = {{"add_prefix_space", "ByteLevel", "add_prefix_space"},
       {"do_lower_case", "BertNormalizer", "lowercase"},
       {"strip_accents", "BertNormalizer", "strip_accents"},
       {"tokenize_chinese_chars", "BertNormalizer", "handle_chinese_chars"}};

void override_field(json& part, const overriding& by, const json& value) {
  if (!part.is_object())
    return;
  const auto type = part.find("type");
  if (type != part.end() && *type == by.type)
    part[by.field] = value;
  for (const auto* list : {"normalizers", "pretokenizers"})
    if (const auto found = part.find(list); found != part.end() && found->is_array())
      for (auto& one : *found)
        override_field(one, by, value);
}

/// The tokens that only tokenizer_config.json has, in the order of their ids.
json tokens_added_by(const std::filesystem::path& path, const json& config, const json& content) {
  auto out = json::array();
  const auto found = config.find("added_tokens_decoder");
  if (found == config.end() || !found->is_object())
    return out;
  std::set<json> known;
  if (const auto added = content.find("added_tokens");
      added != content.end() && added->is_array())  // otherwise read_added() refuses it
    for (const auto& one : *added)
      known.insert(one.is_object() ? one.value("content", json()) : one);
  std::map<std::uint32_t, json> more;
  for (const auto& [key, token] : found->items()) {
    std::uint32_t id = 0;
    const auto end = key.data() + key.size();
    const auto [read, failure] = std::from_chars(key.data(), end, id);
    if (read != end || failure != std::errc() || !token.is_object())
      throw input_error("cannot use '{}': its \"added_tokens_decoder\" has no token under \"{}\"",
                        path.string(),
                        key.substr(0, 80));
    if (known.contains(token.value("content", json())))
      continue;
    more[id] = token;
    more[id]["id"] = id;
  }
  for (auto& [id, token] : more)
    out.push_back(std::move(token));
  return out;
}

/// Follows transformers 5.24. All its classes add tokens. Its model-specific classes rebuild these
/// parts with the settings of tokenizer_config.json. Its generic classes use tokenizer.json
/// unchanged. Returns the added tokens.
json apply_configuration(const std::filesystem::path& beside, json& content) {
  std::error_code failure;
  if (!content.is_object() || !std::filesystem::exists(beside, failure))
    return json::array();
  const auto config = parsed(beside);
  if (!config.is_object())
    return json::array();
  auto added = tokens_added_by(beside, config, content);
  const auto type = config.find("tokenizer_class");
  if (type == config.end() || !type->is_string() || *type == "PreTrainedTokenizerFast"
      || *type == "PreTrainedTokenizer" || *type == "TokenizersBackend")
    return added;
  for (const auto& by : all_overriding) {
    const auto value = config.find(by.setting);
    if (value == config.end() || !value->is_boolean())
      continue;
    for (const auto* part : {"normalizer", "pre_tokenizer"})
      if (const auto found = content.find(part); found != content.end())
        override_field(*found, by, *value);
  }
  return added;
}

void require_known_ids(const json_part& file, const tokenizer_parts& x) {
  for (const auto* const ids : {&x.frame.before, &x.frame.after})
    for (const auto id : *ids)
      if (std::size_t(id) >= x.vocabulary.tokens.size())
        file.at("post_processor")
            .refuse(fmt::format(
                "the id {} is beyond the vocabulary of {}", id, x.vocabulary.tokens.size()));
}

}  // namespace

tokenizer_parts load_tokenizer_json(const std::filesystem::path& path) {
  auto content = parsed(path);
  const auto beside = path.parent_path() / "tokenizer_config.json";
  const auto more = apply_configuration(beside, content);
  const json_part file{content, fmt::format("cannot use '{}'", path.string())};
  tokenizer_parts out;
  if (const auto normal = file.maybe("normalizer"))
    add_normalizer(*normal, out.normal);
  if (const auto pre = file.maybe("pre_tokenizer"))
    add_rules(*pre, out.rules);
  const bool on_bytes
      = !out.rules.empty() && std::holds_alternative<bytes_to_characters>(out.rules.back());
  read_model(file.at("model"), on_bytes, out);
  if (std::holds_alternative<byte_bpe_parts>(out.model))
    out.rules.pop_back();
  if (front_is_unknown(out))
    file.at("pre_tokenizer")
        .refuse(
            "\"prepend_scheme\" is \"first\" after a normalizer that may remove the start of a "
            "text: not supported");
  std::vector<json_part> added;
  if (const auto own = file.maybe("added_tokens"))
    added = own->elements();
  for (const auto& token : more)
    added.push_back(
        {token, fmt::format("cannot use added_tokens_decoder of '{}'", beside.string())});
  read_added(added, out);
  if (const auto decoder = file.maybe("decoder"))
    add_decoding(*decoder, out.decoding);
  else
    out.decoding.emplace_back(blanks_between());
  if (const auto post = file.maybe("post_processor"))
    out.frame = frame_of(*post);
  require_known_ids(file, out);
  out.cut_as_gpt2 = cuts_as_gpt2(file, out);
  return out;
}

std::optional<std::string> end_of_document_in(const std::filesystem::path& file) {
  const auto content = parsed(file);
  const json_part all{content, fmt::format("cannot use '{}'", file.string())};
  for (const auto* key : {"eos_token", "sep_token"})  // BERT has only sep_token
    if (const auto end = all.maybe(key))
      return end->value.is_object() ? end->at("content").text() : end->text();
  return std::nullopt;
}

std::optional<std::string> named_end_of_document(const std::filesystem::path& file) {
  for (const auto* name : naming_end_of_document) {
    const auto beside = file.parent_path() / name;
    std::error_code failure;
    if (!std::filesystem::exists(beside, failure))
      continue;
    if (auto end = end_of_document_in(beside))
      return end;
  }
  return std::nullopt;
}

}  // namespace troupe::runtime
